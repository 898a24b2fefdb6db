"""`gpuperf fleet run`: from the options to the report."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import click

from pytest_gpuperf.cli.output import show
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.features.fleet.dask_cluster import Cluster, require_distributed
from pytest_gpuperf.features.fleet.dispatch import Fleet, FleetDisplay
from pytest_gpuperf.features.fleet.messages import Job
from pytest_gpuperf.features.fleet.project_commit import code_of
from pytest_gpuperf.features.fleet.report import fleet_report
from pytest_gpuperf.processes.signals import ended_in_order
from pytest_gpuperf.records.run_store import RunStore
from pytest_gpuperf.session.expected_durations import load_durations
from pytest_gpuperf.session.run_report import now

if TYPE_CHECKING:
    from pytest_gpuperf.cli.project import Project

NOT_FINISHED = 2
"""Exit status of pytest after Ctrl-C, and of commands after an error that a user can fix."""
NO_TESTS = 5
"""Exit status of pytest if it collected no test."""


class CommandOptions(NamedTuple):
    """The options of the command."""

    scheduler: str
    models: tuple[str, ...]
    replay: bool
    wait_s: float
    tests: tuple[str, ...]
    arguments: tuple[str, ...]
    """For pytest."""


def run_on_fleet(project: Project, choice: CommandOptions, form: str) -> int:
    """Run the tests, report them, and write a run for each model of GPU.

    Returns:
        Exit status of pytest.

    Raises:
        GpuperfError: The tests cannot run; the results so far are written and reported before.
    """
    require_distributed()
    code = code_of(project.root)
    folder = project.root.resolve().relative_to(code.top.resolve()).as_posix()
    baselines = project.baselines
    if baselines.is_relative_to(project.root):
        baselines = baselines.relative_to(project.root)
    run_id = RunStore.new_id(now())
    job = Job(run_id, folder, str(baselines), code.commit, choice.arguments, choice.replay)
    cluster = Cluster(choice.scheduler, job)
    fleet = Fleet(cluster, choice.models, choice.wait_s, FleetDisplay())
    broken: GpuperfError | None = None
    interrupted = False
    with ended_in_order():
        try:
            tests = {model: fleet.collect(model, choice.tests) for model in fleet.prepare()}
            fleet.run(tests, {model: load_durations(project.store, model) for model in tests})
        except KeyboardInterrupt:
            interrupted = True
        except GpuperfError as error:
            broken = error
        finally:
            results = list(fleet.results.values())
            paths = {} if choice.replay else {one.model: one.write(project.runs) for one in results}
            cluster.close()
    statuses = {one.exit_status for one in results}
    status = 1 if 1 in statuses else min(statuses, default=NO_TESTS)
    status = NOT_FINISHED if interrupted or broken is not None else status
    if results:
        show(fleet_report(results, paths, status, replayed=choice.replay), form)
    if broken is not None:
        raise broken
    if interrupted:
        click.echo("gpuperf: interrupted", err=True)
    return status
