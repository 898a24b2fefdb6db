"""`gpuperf fleet run` on workers that replay a recording."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import dask
import pytest

from benchmarks import fleet_kills
from benchmarks.fleet_project import MODEL, git, local_cluster, make_project
from command_line import gpuperf
from forked import fork_children, parent_of_forks, run_forked
from pytest_gpuperf.features.fleet import dask_cluster as clusters
from pytest_gpuperf.features.fleet import worker_functions
from pytest_gpuperf.features.fleet.dispatch import FleetDisplay
from pytest_gpuperf.processes import children

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from click.testing import Result
    from distributed import LocalCluster

FILES, TESTS = 2, 2
FORKED = {"distributed.worker.multiprocessing-method": "forkserver"}
"""Workers in processes of their own need no imports either; their pytest is a new process."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("project")
    make_project(folder, files=FILES, tests=TESTS)
    return folder


@pytest.fixture(scope="module")
def workers(folder: Path) -> Iterator[LocalCluster]:
    with pytest.MonkeyPatch.context() as patch, local_cluster(1, gpus=2, processes=False) as cluster:
        # Forks need no imports; they watch their own parent instead of the worker.
        fork_children(patch.setattr)
        parent = {worker_functions.PARENT_ENV: str(parent_of_forks())}

        def run_child(command: Sequence[str], *, env: dict[str, str], **given: Any) -> int:
            return children.run_child(command, env={**env, **parent}, **given)

        patch.setattr(worker_functions, "run_child", run_child)
        yield cluster


@pytest.fixture(autouse=True)
def _in_the_project(folder: Path, monkeypatch: pytest.MonkeyPatch, _seed_restored: None) -> Iterator[None]:
    monkeypatch.chdir(folder)
    yield
    git(folder, "checkout", "-q", ".")


def fleet_run(cluster: LocalCluster, *arguments: str, status: int) -> Result:
    address = cluster.scheduler_address
    return gpuperf("fleet", "run", "--scheduler", address, "--replay", *arguments, status=status)


def endings(result: Result) -> dict[str, tuple[str, str]]:
    printed: dict[str, Any] = json.loads(result.stdout)
    assert len({test["test"] for test in printed["tests"]}) == len(printed["tests"])
    return {test["test"]: (test["ending"], test["verdict"]) for test in printed["tests"]}


def plain_verdicts(folder: Path) -> dict[str, str]:
    path = folder.parent / "plain.json"
    logs = (folder.parent / "stdout", folder.parent / "stderr")
    assert run_forked(("--gpuperf", f"--gpuperf-json={path}"), os.environ, logs, 60, folder) == 1
    tests = json.loads(path.read_bytes())["tests"]
    return {test["nodeid"]: test["verdict"] for test in tests}


def test_workers_of_two_schedulers_judge_as_a_plain_replay(folder: Path, workers: LocalCluster) -> None:
    expected = plain_verdicts(folder)
    assert len(expected) == FILES * (TESTS + 1)
    with local_cluster(1, processes=False) as other:
        for cluster in (workers, other):
            found = endings(fleet_run(cluster, "--json", status=1))
            judged = {nodeid: verdict for nodeid, (_, verdict) in found.items() if verdict}
            assert judged == expected
            assert found["test_0.py::test_limit"] == ("failed", "limit")
            assert found["test_1.py::test_plain"] == ("passed", "")
            assert found["test_1.py::test_skipped"] == ("skipped", "")


def test_failure_is_shown_with_its_reason(workers: LocalCluster) -> None:
    result = fleet_run(workers, "test_0.py::test_limit", "test_1.py::test_plain", status=1)
    assert "failed on nvidia-h200: test_0.py::test_limit\n    gpuperf: time_us" in result.stderr
    assert "replayed from NVIDIA H200" in result.stdout
    assert "nvidia-h200       1       1" in result.stdout


def test_options_after_two_dashes_are_pytests(workers: LocalCluster) -> None:
    result = fleet_run(workers, "--json", "test_0.py", "--", "-k", "plain", status=4)
    assert endings(result) == {"test_0.py::test_plain": ("passed", "")}


def test_what_pytest_cannot_collect_is_one_error(workers: LocalCluster) -> None:
    result = fleet_run(workers, "missing.py", status=2)
    assert "gpuperf: ERROR: file or directory not found: missing.py" in result.stderr
    assert "gpuperf: error: pytest ended with 4 on " in result.stderr


def test_model_without_a_worker_is_an_error(workers: LocalCluster) -> None:
    result = fleet_run(workers, "--gpu", MODEL, "--gpu", "nvidia-b200", "--wait", "0", status=2)
    assert "has nvidia-b200: its workers have nvidia-h200; expected a worker for each model" in result.stderr


@pytest.fixture
def silent() -> Iterator[str]:
    """Return the address of a server that says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"tcp://127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:9", "127.0.0.1", "tls://127.0.0.1:9", "http://x:1", ""])
def test_address_without_a_scheduler_is_one_error(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.setattr(clusters, "CONNECT_S", 0.2)
    result = gpuperf("fleet", "run", "--scheduler", address, "--replay", status=2)
    assert f"no scheduler answers at {address if '://' in address else f'tcp://{address}'}: " in result.stderr
    assert "Traceback" not in result.output


def test_silent_server_is_one_error_in_seconds(silent: str) -> None:
    code = f"import {clusters.__name__} as found; found.CONNECT_S = 0.5; found.Cluster({silent!r}, None)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
    assert done.stderr.splitlines()[-1].startswith("pytest_gpuperf.errors.GpuperfError: no scheduler answers")
    assert done.stderr.count("Traceback") == 1


def test_changes_that_are_not_committed_are_refused(folder: Path, workers: LocalCluster) -> None:
    path = folder / "test_0.py"
    path.write_text(path.read_text().replace("0.001", "1000"))
    assert "differ from commit" in fleet_run(workers, "test_0.py::test_limit", status=2).stderr


def test_interruption_reports_ended_tests(workers: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(FleetDisplay, "ended", interrupt)
    result = fleet_run(workers, "--json", status=2)
    printed = json.loads(result.stdout)
    [model] = printed["models"]
    assert len(printed["tests"]) == model["passed"] + model["failed"] + model["skipped"] > 0
    assert len(printed["tests"]) + model["missing"] == FILES * (TESTS + 3)


def test_every_test_is_judged_once_though_workers_are_killed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with dask.config.set(FORKED):
        # Seed 16 kills after 0.28 and 0.47 of the time without kills; a faster run can end before the second.
        # One of the three workers outlives both: Dask gives up workers that are killed while they start.
        assert fleet_kills.main(["--runs", "1", "--seed", "16", "--files", "3", "--tests", "1"]) == 0
    os.chdir(tmp_path)
    assert re.search("1 runs of 12 tests with [12] kills: in 0 a test", capsys.readouterr().out)
