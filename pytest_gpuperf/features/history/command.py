"""`gpuperf history`: keep times over commits, show them, and find steps."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pytest_gpuperf.cli.output import echo, output_form, show
from pytest_gpuperf.cli.project import Project, project_options, show_run
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.features.history.commit_order import commit_date, order_of
from pytest_gpuperf.features.history.commit_ranges import accepted_runs, find_ranges
from pytest_gpuperf.features.history.run_lines import lines_of
from pytest_gpuperf.features.history.series import series_of
from pytest_gpuperf.features.history.series_report import detailed, overview
from pytest_gpuperf.features.history.steps_report import steps_report
from pytest_gpuperf.features.history.store import HistoryStore
from pytest_gpuperf.records.files import show_path
from pytest_gpuperf.report.number_format import count, show_size
from pytest_gpuperf.report.overwrite_check import refuse_other_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_gpuperf.features.history.commit_order import Order
    from pytest_gpuperf.features.history.commit_ranges import Range
    from pytest_gpuperf.features.history.series import TimeSeries

DEFAULT_FOLDER = "perf-history"
"""Below the root, next to the baselines: not in `.gpuperf`, which git ignores."""
LAST = 30
"""Number of commits that a terminal shows."""
_CASES = 3
"""Number of tests in a note."""


_STORE = click.option(
    "--store",
    metavar="DIR",
    help=f"Choose the folder of the history (default: {DEFAULT_FOLDER}, below the root).",
)


def _web_address(_: click.Context, __: click.Parameter, value: str) -> str:
    if value and not (value.startswith(("https://", "http://")) and value.isprintable() and " " not in value):
        raise click.BadParameter(f"{value!r} is not an address that begins with https://")
    return value


@click.group("history")
def command() -> None:
    """Follow times over commits, and find steps."""


@command.command("add")
@click.argument("runs", nargs=-1)
@click.option("--url", metavar="URL", default="", callback=_web_address, help="Link the runs to this CI job.")
@_STORE
@project_options
def add_command(project: Project, store: str | None, runs: tuple[str, ...], url: str) -> None:
    """Add the times of RUNS to the history.

    A run is an id, the start of an id, a run.json, or its folder; the newest run by default. Adding a run
    twice adds nothing.
    """
    place = _open(project, store)
    lines = place.load()
    for run in (run for ref in runs or (None,) for run in project.load_all(ref)):
        known = {(line.gpu, line.test, line.label): line.source for line in lines}
        new = lines_of(run, known, commit_date=commit_date(project.root, run.environment.commit), url=url)
        lines += new.lines
        echo(f"{show_run(run)}, {run.environment.gpu.slug}: {count(len(new.lines), 'time')}")
        for line in _left_out(new.left_out):
            echo(line)
    echo(f"{count(place.add(lines), 'new line')} in {place.shown}")


def _left_out(left_out: Sequence[tuple[str, str]]) -> Iterator[str]:
    for why, number in Counter(why for _, why in left_out).items():
        tests = [test for test, reason in left_out if reason == why]
        yield f"  left out {', '.join(tests[:_CASES])}{', …' if number > _CASES else ''}: {why}"


@command.command("show")
@click.argument("test", required=False, default="")
@click.option(
    "--last",
    type=click.IntRange(min=0),
    metavar="N",
    default=LAST,
    show_default=True,
    help="Show the newest N commits of a test; 0 shows all.",
)
@click.option(
    "--site",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Write a dashboard of all tests, one page for GitHub Pages, into this folder.",
)
@click.option("--changes", is_flag=True, help="List steps; exit with 1 if a loss is open.")
@output_form
@_STORE
@project_options
def show_command(
    project: Project,
    store: str | None,
    test: str,
    last: int,
    site: Path | None,
    changes: bool,
    form: str,
) -> None:
    """Show the times of TEST over its commits, or list all tests.

    TEST is a node id, or a part of one. A commit with a plus had changed files. A loss is open if the time
    has not returned, and no run since is in the baseline.
    """
    if site is not None and changes:
        raise click.UsageError("--site and --changes exclude each other.")
    series, ranges, order = _search(project, store, "" if site is not None else test)
    if site is not None:
        _write_site(project, series, ranges, order, site)
    elif changes:
        show(steps_report(ranges, series, order), form)
        if any(one.open for one in ranges):
            raise click.exceptions.Exit(1)
    elif test:
        show(detailed(series, ranges, order, last=last), form)
    else:
        show(overview(series, ranges, order), form)


def _open(project: Project, store: str | None) -> HistoryStore:
    """Return the store in a folder; without a name, that of the project. It may be empty."""
    return HistoryStore(Path(store) if store else project.root / DEFAULT_FOLDER)


def _search(project: Project, store: str | None, test: str) -> tuple[list[TimeSeries], list[Range], Order]:
    """Read a history and find the steps in the series of a test, or of all tests.

    Raises:
        GpuperfError: The history or the test is missing, or a file is broken.
    """
    place = _open(project, store)
    lines = place.load()
    if not lines:
        raise GpuperfError(
            f"found no history in {place.shown}",
            next_step="add runs with gpuperf history add RUN, or name --store",
        )
    order = order_of(lines, project.root)
    series = series_of(lines, order)
    chosen = [one for one in series if test == one.name] or [one for one in series if test in one.name]
    if not chosen:
        raise GpuperfError(
            f"the history has no test {test!r}",
            expected="a node id, or a part of one",
            next_step="gpuperf history show lists the tests",
        )
    return chosen, find_ranges(chosen, order, accepted_runs(project.store, chosen)), order


def _write_site(
    project: Project, series: Sequence[TimeSeries], ranges: Sequence[Range], order: Order, output: Path
) -> None:
    from pytest_gpuperf.features.history.dashboard import PAGE, write_site
    from pytest_gpuperf.features.page.source_links import source_links

    refuse_other_file(output / PAGE, "name another folder, or remove that file")
    size = write_site(output, series, ranges, order, source_links(project.root))
    echo(f"wrote {show_path(output / PAGE)} ({count(len(series), 'time')}, {show_size(size)})")
