"""Options and output that the commands for accepting baselines share."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

import click

from pytest_gpuperf.baseline.merge import in_order
from pytest_gpuperf.cli.output import DEFAULT, echo, show
from pytest_gpuperf.cli.project import count_tests
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.records.call import with_label
from pytest_gpuperf.records.json_files import show_path
from pytest_gpuperf.records.runs import load_run
from pytest_gpuperf.report.table import Column, Report, Table
from pytest_gpuperf.statistics.decision import MAX_TOLERANCE_PCT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_gpuperf.baseline.merge import UpdatePlan
    from pytest_gpuperf.cli.project import Project
    from pytest_gpuperf.records import Run


class _Percent(click.FloatRange):
    """A range without NaN, which passes every comparison of `FloatRange`."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = float(super().convert(value, param, ctx))
        if math.isnan(number):
            self.fail(f"{value} is not a number of percent.", param, ctx)
        return number


RUNS = click.argument("runs", nargs=-1)
ONLY = click.option(
    "--only",
    type=click.Choice(["new", "changed", "all"]),
    default="all",
    show_default=True,
    help="new: tests without a baseline; changed: also what moved beyond its tolerance; all: everything.",
)
TOLERANCE = click.option(
    "--tolerance",
    type=_Percent(min=0, max=MAX_TOLERANCE_PCT, min_open=True),
    help="Ignore slowdowns up to this many %, unless the baseline file or the run has a tolerance "
    "(default: gpuperf_tolerance of pytest's configuration).",
)


def load_runs(project: Project, refs: Sequence[str]) -> list[list[Run]]:
    """Load the runs or recordings that `refs` name, each once, oldest first; without refs the newest run.

    Returns:
        The runs of each GPU model.

    Raises:
        GpuperfError: A run does not exist, cannot be read, or has no tests.
    """
    paths = [path for ref in refs or (None,) for path in project.find_for_baseline(ref)]
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


def show_plans(
    project: Project, plans: Sequence[tuple[Sequence[Run], UpdatePlan]], form: str = DEFAULT
) -> None:
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
    data = {"runs": [run.id for run in runs], "gpu": gpu.name, "tests": facts}
    return Report([table], records, data)


def show_written(*plans: UpdatePlan) -> None:
    """Print the files that changed."""
    for plan in plans:
        for path, content in plan.files.items():
            echo(f"wrote {show_path(path)} ({count_tests(content.tests)})")
    if not any(plan.files for plan in plans):
        echo("no baseline changed")


def show_run(run: Run) -> str:
    """Describe a run: `run 20261120-173012-3f9a, commit c0ffee1+, 2026-11-20`, with a plus if dirty."""
    commit = run.environment.commit[:7] + ("+" if run.environment.commit and run.environment.dirty else "")
    return f"run {run.id}" + (f", commit {commit}" if commit else "") + f", {run.started_at[:10]}"


def _notes(plan: UpdatePlan) -> list[str]:
    kinds = Counter(entry.kind for entry in plan.entries)
    counts = [f"{kinds[kind]} {kind}" for kind in ("new", "changed", "refused") if kinds[kind]]
    within = plan.of_kind("refreshed")
    counts += [f"{len(within)} within the tolerance"] if within else []
    return [", ".join(counts) or "nothing to accept"]
