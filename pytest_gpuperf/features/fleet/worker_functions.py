"""The functions that run on a worker of a fleet: admit it, collect tests, and run a group of them.

A group runs in a process of its own, in the worker's checkout of the project.
"""

from __future__ import annotations

import functools
import os
import socket
import sys
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.features.fleet.gpu_pool import Pool
from pytest_gpuperf.features.fleet.messages import Answer, Job, WorkerState, decode, encode
from pytest_gpuperf.features.fleet.project_commit import code_of
from pytest_gpuperf.measure.device.environment import installed_toolchain
from pytest_gpuperf.measure.device.visible_gpus import visible_gpus
from pytest_gpuperf.processes.children import run_child
from pytest_gpuperf.records.run_store import STATE_FOLDER, recordings
from pytest_gpuperf.settings.settings import STATE_ENV

if TYPE_CHECKING:
    from distributed import Worker

ANSWER_ENV = "GPUPERF_FLEET_ANSWER"
"""Variable of a group's pytest: the file for its results."""
PARENT_ENV = "GPUPERF_FLEET_PARENT"
"""Variable of a group's pytest: the pid of the worker, with which it ends."""
PYTEST = "import sys; sys.path[:] = filter(None, sys.path); import pytest; sys.exit(pytest.main())"
"""Starts pytest as the command `pytest` does: modules of the working directory do not hide others."""
LAST_LINES = 20
"""Lines of pytest's output that an answer has."""

_roots: dict[str, Path] = {}
"""The project's folder of each job that this worker is admitted to."""


class _CancelledError(Exception):
    """Nobody waits for the results."""


@functools.cache
def _pool() -> Pool:
    return Pool(visible_gpus())


def admit(data: bytes, dask_worker: Worker) -> bytes:
    """Check that this worker has the code of a job.

    Args:
        data: A `Job`.
        dask_worker: Given by Dask.

    Returns:
        A `WorkerState`.
    """
    job = decode(data, Job)
    refused = ""
    try:
        here = code_of(Path.cwd())
        _roots[job.id] = here.top / job.folder
        if here.commit != job.commit:
            raise GpuperfError(
                f"it has commit {here.commit[:12]}",
                expected=f"{job.commit[:12]}, as here",
                next_step=f"there type `git fetch` and `git checkout {job.commit[:12]}`",
            )
    except GpuperfError as error:
        refused = str(error)
    resources = {name: int(amount) for name, amount in dask_worker.state.total_resources.items()}
    return encode(WorkerState(socket.gethostname(), installed_toolchain(), resources, refused))


def run_tests(data: bytes, model: str, count: int, arguments: tuple[str, ...], key: str) -> bytes:
    """Run pytest on free GPUs of this worker.

    Args:
        data: A `Job` to which this worker was admitted.
        model: Model of the GPUs.
        count: Number of GPUs.
        arguments: Names of tests or of files, or `--collect-only` and names.
        key: Name of the task. If it is cancelled, pytest ends.

    Returns:
        An `Answer`.
    """
    job = decode(data, Job)
    with _pool().take(model, count) as uuids, TemporaryDirectory(prefix="gpuperf-fleet-") as folder:
        root, log, answer = _roots[job.id], Path(folder, "log"), Path(folder, "answer")
        env = {**os.environ, ANSWER_ENV: str(answer), PARENT_ENV: str(os.getpid())}
        env[STATE_ENV] = str(Path(folder, STATE_FOLDER))
        if job.replay:
            env["CUDA_VISIBLE_DEVICES"] = ""
        elif uuids:
            env["CUDA_VISIBLE_DEVICES"] = ",".join(uuids)
        options = ("--gpuperf", _replay(job, model, root), *job.arguments)
        command = [sys.executable, "-c", PYTEST, *("-p", "pytest_gpuperf.features.fleet.worker_plugin")]
        status, poll = -1, functools.partial(_end_if_cancelled, key)
        with suppress(_CancelledError):
            status = run_child([*command, *options, *arguments], cwd=root, env=env, log=log, poll=poll)
        found = decode(answer.read_bytes(), Answer) if answer.exists() else Answer(status)
        found.output = "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-LAST_LINES:])
        return encode(found)


def _replay(job: Job, model: str, root: Path) -> str:
    """Return the option that measures, or that replays the newest recordings of the model."""
    if not job.replay:
        return "--gpuperf-replay=never"
    # Their names begin with the time.
    found = sorted(recordings(root / job.baselines), key=lambda path: path.name)
    own = [path for path in found if path.parents[1].name == model]
    return f"--gpuperf-replay={'auto' if not own or own[-1] == found[-1] else own[-1]}"


def _end_if_cancelled(key: str) -> None:
    from distributed import get_worker

    task = get_worker().state.tasks.get(key)
    if task is None or task.state in ("cancelled", "resumed", "released", "forgotten"):
        raise _CancelledError
