"""`gpuperf fleet`: its commands and their options."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from pytest_gpuperf.cli.output import output_form, show
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


MOST_GPUS = 100_000
"""Maximum number of GPUs of a plan."""
MOST_TESTS = 10_000_000
"""Maximum number of tests of a plan."""


@click.group("fleet")
def command() -> None:
    """Run tests on the GPUs of many hosts."""


@command.command("run")
@click.option("--scheduler", required=True, metavar="ADDRESS", help="Connect to this scheduler of Dask.")
@_MODELS
@click.option("--replay", is_flag=True, help="Judge the newest recordings again, on workers without a GPU.")
@click.option("--ship-changes", is_flag=True, help="Send changes that are not committed as a patch.")
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
    ship_changes: bool,
    wait_s: float,
    tests: tuple[str, ...],
    form: str,
) -> None:
    """Run TESTS on every model of GPU, each test once on each.

    TESTS are files, folders and node ids, as for pytest. The exit status is pytest's.
    """
    from pytest_gpuperf.cli.fleet.running import Choice, run_on_fleet

    split = tests.index("--") if "--" in tests else len(tests)
    choice = Choice(scheduler, models, replay, ship_changes, wait_s, tests[:split], tests[split + 1 :])
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
    from pytest_gpuperf.session.fleet.cluster import require_distributed
    from pytest_gpuperf.session.fleet.gpus import resources

    require_distributed()
    offered = _claimed(claimed) if claimed else resources()
    if not offered:
        raise GpuperfError(
            "no GPU is visible here",
            expected="an NVIDIA driver, and a GPU in CUDA_VISIBLE_DEVICES",
            next_step="look at `nvidia-smi`, or announce one to replay: --gpu nvidia-h200=1",
        )
    shown = ", ".join(f"{name} {count}" for name, count in offered.items())
    click.echo(f"announces {shown} to {scheduler}", err=True)
    os.execv(sys.executable, dask_worker(scheduler, offered, options))  # noqa: S606


def dask_worker(scheduler: str, offered: dict[str, int], options: Sequence[str]) -> list[str]:
    """Return the command of the worker: a thread for each GPU, and no limit on memory, which pytest needs."""
    threads = sum(count for name, count in offered.items() if not name.startswith(("GPU-", "MIG-")))
    return [
        *(sys.executable, "-m", "distributed.cli.dask_worker", scheduler),
        *("--nworkers", "1", "--nthreads", str(threads), "--memory-limit", "0", "--no-dashboard"),
        *("--resources", ",".join(f"{name}={count}" for name, count in offered.items())),
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


@command.command("simulate")
@_MODELS
@click.option(
    "--gpus",
    "sizes",
    multiple=True,
    type=click.IntRange(1, MOST_GPUS),
    default=(1, 8, 64),
    show_default=True,
    metavar="N",
    help="Plan this many GPUs; several times for several plans.",
)
@click.option(
    "--tests",
    "count",
    type=click.IntRange(1, MOST_TESTS),
    metavar="N",
    help="Repeat the tests until there are so many.",
)
@click.option("--start", "start_s", default=10.0, show_default=True, help="Assume seconds for a process.")
@click.option("--group", "group_ms", default=15.0, show_default=True, help="Assume ms of Dask for a group.")
@click.option("--test", "test_ms", default=0.2, show_default=True, help="Assume ms of Dask for a test.")
@click.argument("names", nargs=-1, metavar="[TESTS]...")
@output_form
@project_options
def simulate_command(
    project: Project,
    models: tuple[str, ...],
    sizes: tuple[int, ...],
    count: int | None,
    start_s: float,
    group_ms: float,
    test_ms: float,
    names: tuple[str, ...],
    form: str,
) -> None:
    """Plan a fleet by the durations in the baselines.

    TESTS are files, folders or node ids that have baselines; all of them by default. Nothing runs.
    """
    from pytest_gpuperf.cli.fleet.planning import plans_of
    from pytest_gpuperf.report.fleet_report import plan_report
    from pytest_gpuperf.session.fleet.simulation import Costs

    plans, notes = plans_of(project, models, names, sizes, count, Costs(start_s, group_ms, test_ms))
    show(plan_report(plans, notes), form)
