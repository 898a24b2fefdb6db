"""What the commands that take runs into baselines have in common: options, and showing what changes."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import click

from pytest_gpuperf.baseline.gather import in_order
from pytest_gpuperf.baseline.sessions import MAX_SESSIONS
from pytest_gpuperf.cli.project import count_tests, echo
from pytest_gpuperf.records.json_files import show_path
from pytest_gpuperf.records.runs import load_run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_gpuperf.baseline.entry import Entry
    from pytest_gpuperf.baseline.merge import Plan
    from pytest_gpuperf.baseline.sessions import Rule
    from pytest_gpuperf.cli.project import Project
    from pytest_gpuperf.records import Run

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
    type=click.FloatRange(min=0, min_open=True),
    help="A slowdown up to this counts as none, in per cent, where neither the baseline file nor the run "
    "says (default: gpuperf_tolerance of pytest's configuration).",
)
APPEND = click.option(
    "--append/--replace",
    default=None,
    help="Whether the sessions that a time has stay beside the new ones, which is right for the same code "
    f"only; of more than {MAX_SESSIONS} the oldest go (default: they go where the time moved beyond its "
    "tolerance, other kernels run, or an exact counter changed).",
)


def rule_of(append: bool | None) -> Rule:
    """The rule that `--append` or `--replace` stands for."""
    return "auto" if append is None else "append" if append else "replace"


def load_runs(project: Project, refs: Sequence[str]) -> list[Run]:
    """The runs or recordings that `refs` name, each once, oldest first; the newest run for none.

    Raises:
        GpuperfError: There is no such run, it cannot be read, or they are of several models of GPU.
    """
    return in_order([load_run(project.find_for_baseline(ref)) for ref in refs or (None,)])


def show_plan(project: Project, runs: Sequence[Run], plan: Plan) -> None:
    """Print what changes, test by test."""
    gpu = runs[0].environment.gpu
    beside = f"{gpu.name}, beside {show_path(project.baselines / gpu.slug)}"
    *first, last = [show_run(run) for run in runs]
    for line in (*first, f"{last}, {beside}"):
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
    """Print which tests have counters that were kept from an earlier run, and what becomes of these."""
    if not nodeids:
        return
    echo(f"counters of {count_tests(nodeids)} were kept from an earlier run and {what}:")
    for nodeid in nodeids:
        echo(f"  {nodeid}")
    echo("  pytest --gpuperf --gpuperf-counter-cache=refresh reads them anew")


def show_written(plan: Plan) -> None:
    """Print which files have changed."""
    for path, content in plan.files.items():
        echo(f"wrote {show_path(path)} ({count_tests(content['tests'])})")
    if not plan.files:
        echo("no baseline changed")


def show_run(run: Run) -> str:
    """`run 20261120-173012-3f9a, commit c0ffee1, 2026-11-20`; a plus for a dirty working tree."""
    commit = run.environment.commit[:7] + ("+" if run.environment.commit and run.environment.dirty else "")
    return f"run {run.id}" + (f", commit {commit}" if commit else "") + f", {run.started_at[:10]}"


def _show_entry(entry: Entry) -> None:
    label = "" if entry.label in ("", "main") else f" ({entry.label})"
    echo(f"  {entry.kind:8} {entry.nodeid}{label}")
    for line in entry.lines:
        echo(f"           {line}")
