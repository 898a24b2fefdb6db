"""Options and output that the commands for accepting baselines share."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

import click

from pytest_gpuperf.baseline.gather import in_order
from pytest_gpuperf.baseline.sessions import MAX_SESSIONS
from pytest_gpuperf.cli.project import count_tests, echo
from pytest_gpuperf.records.json_files import show_path
from pytest_gpuperf.records.runs import load_run
from pytest_gpuperf.statistics.decision import MAX_TOLERANCE_PCT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_gpuperf.baseline.entry import Entry
    from pytest_gpuperf.baseline.merge import Plan
    from pytest_gpuperf.baseline.sessions import Rule
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
APPEND = click.option(
    "--append/--replace",
    default=None,
    help="Keep the sessions of a time and add the new ones, which is right only for the same code, or "
    f"replace them; at most {MAX_SESSIONS} are kept (default: replace if the time moved beyond its "
    "tolerance, other kernels run, or an exact counter changed).",
)


def rule_of(append: bool | None) -> Rule:
    """Return the rule of `--append` or `--replace`."""
    return "auto" if append is None else "append" if append else "replace"


def load_runs(project: Project, refs: Sequence[str]) -> list[Run]:
    """Load the runs or recordings that `refs` name, each once, oldest first; without refs the newest run.

    Raises:
        GpuperfError: A run does not exist or cannot be read, or the runs are from several GPU models.
    """
    return in_order([load_run(project.find_for_baseline(ref)) for ref in refs or (None,)])


def show_plan(project: Project, runs: Sequence[Run], plan: Plan) -> None:
    """Print the changes, test by test."""
    gpu = runs[0].environment.gpu
    context = f"{gpu.name}, compared with {show_path(project.baselines / gpu.slug)}"
    *first, last = [show_run(run) for run in runs]
    for line in (*first, f"{last}, {context}"):
        echo(line)
    for entry in plan.entries:
        if entry.kind != "refreshed":
            _show_entry(entry)
    counts = [
        f"{len(plan.of_kind(kind))} {kind}" for kind in ("new", "changed", "refused") if plan.of_kind(kind)
    ]
    within = plan.of_kind("refreshed")
    if within:
        counts.append(f"{len(within)} within the tolerance")
    echo(", ".join(counts) or "nothing to accept")
    for line, number in Counter(entry.sessions for entry in within if entry.sessions).items():
        echo(f"  of these {number}: {line}")
    show_kept(plan.kept, "are not taken")


def show_kept(nodeids: Sequence[str], what: str) -> None:
    """Print the tests with counters from an earlier run, and the treatment of those counters."""
    if not nodeids:
        return
    echo(f"counters of {count_tests(nodeids)} were kept from an earlier run and {what}:")
    for nodeid in nodeids:
        echo(f"  {nodeid}")
    echo("  pytest --gpuperf --gpuperf-counter-cache=refresh reads them again")


def show_written(plan: Plan) -> None:
    """Print the files that changed."""
    for path, content in plan.files.items():
        echo(f"wrote {show_path(path)} ({count_tests(content['tests'])})")
    if not plan.files:
        echo("no baseline changed")


def show_run(run: Run) -> str:
    """Describe a run: `run 20261120-173012-3f9a, commit c0ffee1+, 2026-11-20`, with a plus if dirty."""
    commit = run.environment.commit[:7] + ("+" if run.environment.commit and run.environment.dirty else "")
    return f"run {run.id}" + (f", commit {commit}" if commit else "") + f", {run.started_at[:10]}"


def _show_entry(entry: Entry) -> None:
    label = "" if entry.label in ("", "main") else f" ({entry.label})"
    echo(f"  {entry.kind:8} {entry.nodeid}{label}")
    for line in entry.lines:
        echo(f"           {line}")
