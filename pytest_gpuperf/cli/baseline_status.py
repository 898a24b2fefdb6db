"""`gpuperf baseline status`: list the baselines of each GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from pytest_gpuperf.baseline.run_verdicts import not_measured
from pytest_gpuperf.cli.output import output_form, show
from pytest_gpuperf.cli.project import Project, project_options
from pytest_gpuperf.records.baseline import card_of
from pytest_gpuperf.records.files import show_path
from pytest_gpuperf.report.table import Column, Report, Table

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from pytest_gpuperf.records.baseline import RunNote


@click.command("status")
@click.argument("run", required=False)
@output_form
@project_options
def status_command(project: Project, run: str | None, form: str) -> None:
    """List the baselines of each GPU, and the tests in them that RUN has not measured."""
    runs = project.load_all(run) if run is not None else []
    missing = {
        (one.environment.gpu.slug, nodeid) for one in runs for nodeid in not_measured(one, project.store)
    }
    suites = list(_suites(project, missing))
    notes = [] if suites else [f"no baselines in {show_path(project.baselines)}"]
    show(Report([Table(_columns(suites), notes=notes)], [record for record, _ in suites]), form)


def _suites(
    project: Project, missing: Collection[tuple[str, str]]
) -> Iterator[tuple[dict[str, Any], list[RunNote]]]:
    """Return the facts of each suite on each GPU, and the runs of its values, oldest first."""
    for slug in project.store.slugs():
        for name in project.store.suites(slug):
            if (known := project.store.load(slug, name)) is not None:
                runs = sorted(known.runs.values(), key=lambda note: note.date)
                counts = [len(time.sessions) for time in known.times] or [0]
                cards = {card_of(one, known.runs) for time in known.times for one in time.sessions}
                facts = {
                    "gpu": slug,
                    "suite": name,
                    "tests": len(known.tests),
                    "fewest_sessions": min(counts),
                    "most_sessions": max(counts),
                    "cards": len(cards - {""}),
                    "newest": runs[-1].date if runs else "",
                    "oldest": runs[0].date if runs else "",
                    "not_in_run": tuple(nodeid for nodeid in known.tests if (slug, nodeid) in missing),
                }
                yield facts, runs


def _columns(suites: Sequence[tuple[dict[str, Any], list[RunNote]]]) -> list[Column]:
    facts, runs = [one for one, _ in suites], [notes for _, notes in suites]
    newest = [_show_note(notes[-1]) if notes else "" for notes in runs]
    oldest = [_show_note(notes[0]) if len(notes) > 1 else "" for notes in runs]
    gone = ["\n".join(f"not in the run: {nodeid}" for nodeid in one["not_in_run"]) for one in facts]
    sessions = [(one["fewest_sessions"], one["most_sessions"]) for one in facts]
    columns = [
        Column("gpu", [one["gpu"] for one in facts], "group"),
        Column("suite", [one["suite"] for one in facts], "name", code=True),
        Column("tests", [str(one["tests"]) for one in facts]),
        Column("sessions", [f"{low} to {high}" if low < high else str(high or "") for low, high in sessions]),
        Column("cards", [str(one["cards"] or "") for one in facts]),
        Column("newest", newest, left=True),
        Column("oldest", oldest, left=True),
        Column("differences", gone, "detail"),
    ]
    return columns if suites else []


def _show_note(note: RunNote) -> str:
    commit = f" {note.commit[:7]}{'+' if note.dirty else ''}" if note.commit else ""
    return f"{note.date[:10]}{commit}"
