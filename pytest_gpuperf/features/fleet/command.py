"""`gpuperf fleet`: its commands and their options."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import click

from pytest_gpuperf.cli.output import output_form
from pytest_gpuperf.cli.project import Project, project_options
from pytest_gpuperf.errors import GpuperfError

if TYPE_CHECKING:
    from collections.abc import Sequence

_MODELS = click.option(
    "--gpu",
    "models",
    multiple=True,
    metavar="MODEL",
    help="Run on this model, a folder's name below the baselines; several times for several models "
    "(default: all that the workers have).",
)

_PLACES = ("--host", "--interface", "--listen-address", "--contact-address")
"""Options of `dask worker` that say on what it listens."""


@click.group("fleet")
def command() -> None:
    """Run tests on the GPUs of many hosts."""


@command.command("run")
@click.option("--scheduler", required=True, metavar="ADDRESS", help="Connect to this scheduler of Dask.")
@_MODELS
@click.option("--replay", is_flag=True, help="Judge the newest recordings again, on workers without a GPU.")
@click.option(
    "--wait",
    "wait_s",
    type=click.FloatRange(min=0),
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="Wait for a worker of each model.",
)
@click.argument("tests", nargs=-1, metavar="[TESTS]... [-- PYTEST_OPTIONS...]")
@output_form
@project_options
def run_command(
    project: Project,
    scheduler: str,
    models: tuple[str, ...],
    replay: bool,
    wait_s: float,
    tests: tuple[str, ...],
    form: str,
) -> None:
    """Run TESTS on every model of GPU, each test once on each.

    TESTS are files, folders and node ids, as for pytest. The exit status is pytest's.
    """
    from pytest_gpuperf.features.fleet.run_command import CommandOptions, run_on_fleet

    split = tests.index("--") if "--" in tests else len(tests)
    choice = CommandOptions(scheduler, models, replay, wait_s, tests[:split], tests[split + 1 :])
    sys.exit(run_on_fleet(project, choice, form))


@command.command("worker")
@click.argument("scheduler", metavar="ADDRESS")
@click.option(
    "--gpu",
    "claimed",
    multiple=True,
    metavar="MODEL=N",
    help="Announce these instead of the GPUs of this host, to replay.",
)
@click.argument("options", nargs=-1, metavar="[-- DASK_OPTIONS...]")
def worker_command(scheduler: str, claimed: tuple[str, ...], options: tuple[str, ...]) -> None:
    """Offer the GPUs of this host to the scheduler at ADDRESS.

    Start it in the checkout of the project. The GPUs are those of CUDA_VISIBLE_DEVICES. DASK_OPTIONS are
    those of `dask worker`.
    """
    from pytest_gpuperf.features.fleet.dask_cluster import require_distributed
    from pytest_gpuperf.features.fleet.gpu_pool import resources

    require_distributed()
    offered = _claimed(claimed) if claimed else resources()
    if not offered:
        raise GpuperfError(
            "no GPU is visible here",
            expected="an NVIDIA driver, and a GPU in CUDA_VISIBLE_DEVICES",
            next_step="look at `nvidia-smi`, or announce one to replay: --gpu nvidia-h200=1",
        )
    shown = ", ".join(f"{name} {count}" for name, count in offered.items())
    worker = dask_worker(scheduler, offered, options)
    where = worker[worker.index("--host") + 1] if "--host" in worker else "all interfaces"
    click.echo(f"announces {shown} to {scheduler}, listens on {where}", err=True)
    os.execv(sys.executable, worker)  # noqa: S606


def dask_worker(scheduler: str, offered: dict[str, int], options: Sequence[str]) -> list[str]:
    """Return the command of the worker: a thread for each GPU, and no limit on memory, which pytest needs.

    It listens on loopback if its scheduler does: Dask's workers run what anybody sends.
    """
    threads = sum(count for name, count in offered.items() if not name.startswith(("GPU-", "MIG-")))
    host = urlsplit(scheduler if "://" in scheduler else f"tcp://{scheduler}").hostname or ""
    loopback = host == "localhost" or host.startswith("127.") or host == "::1"
    own = any(option.partition("=")[0] in _PLACES for option in options)
    return [
        *(sys.executable, "-m", "distributed.cli.dask_worker", scheduler),
        *("--nworkers", "1", "--nthreads", str(threads), "--memory-limit", "0", "--no-dashboard"),
        *("--resources", ",".join(f"{name}={count}" for name, count in offered.items())),
        *(("--host", "127.0.0.1" if host == "localhost" else host) if loopback and not own else ()),
        *options,
    ]


def _claimed(texts: Sequence[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for text in texts:
        name, _, count = text.partition("=")
        if not name or not count.isdecimal() or not int(count):
            raise GpuperfError(f"--gpu {text}", expected="a model and a number: --gpu nvidia-h200=1")
        found[name] = int(count)
    return found
