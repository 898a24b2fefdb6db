"""`gpuperf baseline`: accept runs as baselines, and show what would change."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

import click

from pytest_gpuperf.baseline.acceptance import UpdatePlan, accept, in_order, plan, remove
from pytest_gpuperf.cli.baseline_status import status_command
from pytest_gpuperf.cli.output import DEFAULT, echo, output_form, show
from pytest_gpuperf.cli.project import Project, count_tests, project_options, show_run
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.records.call import with_label
from pytest_gpuperf.records.files import show_path
from pytest_gpuperf.records.run_store import load_run
from pytest_gpuperf.report.table import Column, Report, Table

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pytest_gpuperf.baseline.accepted_measurement import Which
    from pytest_gpuperf.records import Run


@click.group("baseline")
def command() -> None:
    """Accept runs as baselines, and list them."""


@command.command("accept")
@click.argument("runs", nargs=-1)
@click.option(
    "--only",
    type=click.Choice(["new", "changed", "all"]),
    default="all",
    show_default=True,
    help="new: tests without a baseline; changed: also what moved beyond its tolerance; all: everything.",
)
@click.option("--incomplete", is_flag=True, help="Accept a run that was interrupted.")
@click.option("--dry-run", is_flag=True, help="Show the changes, and write nothing.")
@click.option(
    "--exit-code",
    is_flag=True,
    help="With --dry-run: exit with 1 if something is new, moved, refused or missing.",
)
@click.option("--partial", "some", is_flag=True, help="With --exit-code: some tests may be missing.")
@output_form
@project_options
def accept_command(
    project: Project,
    runs: tuple[str, ...],
    only: Which,
    incomplete: bool,
    dry_run: bool,
    exit_code: bool,
    some: bool,
    form: str,
) -> None:
    """Make RUNS the baselines of their GPUs.

    A run is an id, the start of an id, a run.json, or its folder; the newest run by default. The session
    of a run that passed is added; one that is slower or faster replaces the stored ones. Parts that a test no
    longer measures go. Limits and notes stay. Refused if CI is set, unless it is a dry run.
    """
    if exit_code and not dry_run:
        raise click.UsageError("--exit-code needs --dry-run.")
    paths = [path for ref in runs or (None,) for path in project.find_for_baseline(ref)]
    models = _load_runs(paths)
    recorded = any(project.baselines.absolute() in path.absolute().parents for path in paths)
    change = partial(plan if dry_run else accept, incomplete=incomplete, compiled=not recorded)
    plans = [change(measured, project.store, only, project.tolerance_pct) for measured in models]
    _show_plans(project, list(zip(models, plans, strict=True)), form)
    if form == DEFAULT and not dry_run:
        _show_written(*plans)
    missing = any(each.missing for each in plans) and not some
    if exit_code and (missing or any(each.of_kind("new", "changed", "refused") for each in plans)):
        raise click.exceptions.Exit(1)


@command.command("remove")
@click.argument("tests", nargs=-1, required=True)
@project_options
def remove_command(project: Project, tests: tuple[str, ...]) -> None:
    """Remove TESTS, by their full node ids, from the baselines of all GPUs. Refused if CI is set."""
    _show_written(UpdatePlan(remove(tests, project.store), ()))


command.add_command(status_command)


def _load_runs(paths: Sequence[Path]) -> list[list[Run]]:
    """Load runs or recordings, each once, oldest first.

    Returns:
        The runs of each GPU model.

    Raises:
        GpuperfError: A run cannot be read, or has no tests.
    """
    of_model: dict[str, list[Run]] = {}
    for run in map(load_run, paths):
        if not run.tests:
            raise GpuperfError(
                f"the run {run.id} has no tests",
                expected="a run that measured",
                next_step="type `pytest --gpuperf` with the path of a test that uses the gpuperf fixture",
            )
        of_model.setdefault(run.environment.gpu.slug, []).append(run)
    return [in_order(runs) for runs in of_model.values()]


def _show_plans(project: Project, plans: Sequence[tuple[Sequence[Run], UpdatePlan]], form: str) -> None:
    """Print the changes, test by test, for each GPU model."""
    reports = [_report(project, runs, plan) for runs, plan in plans]
    tables = [table for report in reports for table in report.tables]
    records = [record for report in reports for record in report.records]
    data = [report.data for report in reports]
    show(Report(tables, records, data[0] if len(data) == 1 else data), form)


def _report(project: Project, runs: Sequence[Run], plan: UpdatePlan) -> Report:
    gpu = runs[0].environment.gpu
    *above, last = [show_run(run) for run in runs]
    above.append(f"{last}, {gpu.name}, compared with {show_path(project.baselines / gpu.slug)}")
    shown = [entry for entry in plan.entries if entry.kind != "refreshed"]
    columns = [
        Column("test", [with_label(entry.nodeid, entry.label) for entry in shown], "name", code=True),
        Column("effect", [entry.kind for entry in shown], "outcome", left=True),
        Column("details", ["\n".join(entry.lines) for entry in shown], "detail"),
    ]
    table = Table(columns if shown else (), above, notes=_notes(plan))
    facts = [
        {"test": entry.nodeid, "label": entry.label, "effect": entry.kind, "details": entry.lines}
        for entry in plan.entries
    ]
    records = [{**row, "details": "; ".join(row["details"])} for row in facts]
    data = {"runs": [run.id for run in runs], "gpu": gpu.name, "tests": facts, "missing": plan.missing}
    return Report([table], records, data)


def _show_written(*plans: UpdatePlan) -> None:
    """Print the files that changed."""
    for each in plans:
        for path, content in each.files.items():
            echo(f"wrote {show_path(path)} ({count_tests(content.tests)})")
    if not any(each.files for each in plans):
        echo("no baseline changed")


def _notes(plan: UpdatePlan) -> list[str]:
    kinds = Counter(entry.kind for entry in plan.entries)
    counts = [f"{kinds[kind]} {kind}" for kind in ("new", "changed", "refused") if kinds[kind]]
    within = plan.of_kind("refreshed")
    counts += [f"{len(within)} within the tolerance"] if within else []
    notes = [", ".join(counts) or "nothing to accept"]
    if plan.missing:
        missing = f"missing: {count_tests(plan.missing)} with a baseline, such as {plan.missing[0]}"
        notes.append(f"{missing}; measure all, or type --partial, or gpuperf baseline remove")
    return notes
