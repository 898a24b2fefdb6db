"""`gpuperf fleet run`: from the options to the report."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from pytest_gpuperf.baseline.durations import load_durations
from pytest_gpuperf.cli.output import show
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.features.fleet.cluster import Cluster, require_distributed
from pytest_gpuperf.features.fleet.code import code_of
from pytest_gpuperf.features.fleet.fleet import Fleet
from pytest_gpuperf.features.fleet.messages import Job
from pytest_gpuperf.features.fleet.report import OfModel, fleet_report
from pytest_gpuperf.features.fleet.results import FAILING
from pytest_gpuperf.processes.signals import ended_in_order
from pytest_gpuperf.records.change import printable
from pytest_gpuperf.records.json_files import show_path
from pytest_gpuperf.records.runs import RunStore
from pytest_gpuperf.report.rows import overall_status
from pytest_gpuperf.report.show import count
from pytest_gpuperf.session.base import now

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pytest_gpuperf.cli.project import Project
    from pytest_gpuperf.features.fleet.results import ModelResults

NOT_FINISHED = 2
"""Exit status of pytest after Ctrl-C, and of commands after an error that a user can fix."""
NO_TESTS = 5
"""Exit status of pytest if it collected no test."""


class Choice(NamedTuple):
    """The options of the command."""

    scheduler: str
    models: tuple[str, ...]
    replay: bool
    ship_changes: bool
    wait_s: float
    tests: tuple[str, ...]
    arguments: tuple[str, ...]
    """For pytest."""


class _Screen:
    """Shows each failure, and a line of progress, on standard error; writes the runs.

    Args:
        store: Store of the runs.
    """

    def __init__(self, store: RunStore) -> None:
        self._store = store
        self._begin = time.monotonic()
        self._shown = ""
        self.fleet: Fleet | None = None

    def note(self, line: str) -> None:
        self._write(f"gpuperf: {line}")

    def ended(self, results: ModelResults, nodeids: Sequence[str], worker: str) -> None:
        """Show the failed tests with their reasons, and how many others ended."""
        outcomes = [(nodeid, results.outcomes[nodeid]) for nodeid in nodeids]
        failed = [(nodeid, outcome) for nodeid, outcome in outcomes if outcome.ending in FAILING]
        for nodeid, outcome in failed:
            self._write(f"{outcome.ending} on {results.model}: {nodeid}")
            for line in outcome.message.splitlines():
                self._write(f"    {line}")
        others = len(outcomes) - len(failed)
        if others and not sys.stderr.isatty():
            self._write(f"{results.model}: {count(others, 'test')} ended on {worker}")

    def progress(self, done: int, total: int, running: int, gpus: int) -> None:
        """Rewrite the line of progress."""
        if sys.stderr.isatty():
            seconds = time.monotonic() - self._begin
            self._shown = f"{done}/{total} tests, {running} groups on {gpus} GPUs, {seconds:.0f} s"
            click.echo(f"\r\x1b[2K{self._shown}", err=True, nl=False)

    @property
    def results(self) -> Sequence[ModelResults]:
        """The results so far."""
        return list(self.fleet.results.values()) if self.fleet is not None else []

    def keep(self) -> dict[str, list[Path]]:
        """Write the runs, and return their files by model of GPU."""
        return {one.model: one.write(self._store) for one in self.results}

    def close(self) -> None:
        """Leave the line of progress."""
        if self._shown:
            click.echo("", err=True)

    def _write(self, line: str) -> None:
        click.echo(("\r\x1b[2K" if self._shown else "") + printable(line), err=True)


def run_on_fleet(project: Project, choice: Choice, form: str) -> int:
    """Run the tests, report them, and write a run for each model of GPU.

    Returns:
        Exit status of pytest.

    Raises:
        GpuperfError: The tests cannot run; the results so far are written and reported before.
    """
    require_distributed()
    code = code_of(project.root, ship=choice.ship_changes)
    baselines = project.baselines
    if baselines.is_relative_to(project.root):
        baselines = baselines.relative_to(project.root)
    job = Job(
        RunStore.new_id(now()),
        code.folder,
        str(baselines),
        code.commit,
        choice.arguments,
        choice.replay,
        code.patch,
    )
    screen = _Screen(project.runs)
    cluster = Cluster(choice.scheduler, job)
    broken: GpuperfError | None = None
    interrupted = False
    with ended_in_order():
        try:
            fleet = screen.fleet = Fleet(cluster, choice.models, choice.wait_s, screen)
            tests = {model: fleet.collect(model, choice.tests) for model in fleet.prepare()}
            fleet.run(tests, {model: load_durations(project.store, model) for model in tests})
        except KeyboardInterrupt:
            interrupted = True
        except GpuperfError as error:
            broken = error
        finally:
            screen.close()
            paths = screen.keep()
            cluster.close()
    results = list(screen.results)
    status = _status(results, interrupted=interrupted, broken=broken is not None)
    if results:
        show(fleet_report([_of_model(one, paths[one.model]) for one in results], status), form)
    if broken is not None:
        raise broken
    if interrupted:
        click.echo("gpuperf: interrupted", err=True)
    return status


def _status(results: Sequence[ModelResults], *, interrupted: bool, broken: bool) -> int:
    statuses = {one.exit_status for one in results}
    if interrupted or broken:
        return NOT_FINISHED
    return 1 if 1 in statuses else min(statuses, default=NO_TESTS)


def _of_model(results: ModelResults, paths: Sequence[Path]) -> OfModel:
    judged = {result.record.nodeid: overall_status(result).value for result in results.results}
    tests: list[dict[str, Any]] = [
        {
            "test": nodeid,
            "gpu": results.model,
            "ending": outcome.ending,
            "verdict": judged.get(nodeid, ""),
            "seconds": outcome.seconds,
            "message": outcome.message,
            "worker": results.workers.get(nodeid, ""),
        }
        for nodeid in results.nodeids
        if (outcome := results.outcomes.get(nodeid)) is not None
    ]
    missing = len(results.nodeids) - len(tests)
    return OfModel(results.model, tests, missing, [show_path(path) for path in paths], results.summary())
