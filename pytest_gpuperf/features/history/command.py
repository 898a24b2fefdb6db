"""`gpuperf history`: keep times over commits, show them, and find changes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pytest_gpuperf.cli.accepting import show_run
from pytest_gpuperf.cli.groups import CommandGroup
from pytest_gpuperf.cli.output import echo, output_file, output_form, screen, show, write
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.features.history.changes_report import changes_report
from pytest_gpuperf.features.history.options import open_store, search, store_options
from pytest_gpuperf.features.history.order import commit_date
from pytest_gpuperf.features.history.series_report import detailed, overview
from pytest_gpuperf.features.history.store import NoHistoryError
from pytest_gpuperf.features.history.taking import lines_of
from pytest_gpuperf.records.json_files import show_path
from pytest_gpuperf.report.own_files import refuse_other_file
from pytest_gpuperf.report.show import count, show_size

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_gpuperf.cli.project import Project
    from pytest_gpuperf.features.history.options import Searched
    from pytest_gpuperf.features.history.record import HistoryLine

LAST = 30
"""Number of commits that a terminal shows."""
_CASES = 3
"""Number of tests in a note."""


def _web_address(_: click.Context, __: click.Parameter, value: str) -> str:
    if value and not (value.startswith(("https://", "http://")) and value.isprintable() and " " not in value):
        raise click.BadParameter(f"{value!r} is not an address that begins with https://")
    return value


@click.group("history", cls=CommandGroup)
def command() -> None:
    """Follow times over commits, and find steps and creep."""


@command.command("add")
@click.argument("runs", nargs=-1)
@click.option("--push", is_flag=True, help="Push the branch of the history, merged with the remote's.")
@click.option("--url", metavar="URL", default="", callback=_web_address, help="Link the runs to this CI job.")
@store_options
def add_command(project: Project, store: str, runs: tuple[str, ...], push: bool, url: str) -> None:
    """Add the times of RUNS to the history.

    A run is an id, the start of an id, a run.json, or its folder; the newest run by default. Adding a run
    twice adds nothing.
    """
    place = open_store(project, store, push=push)
    try:
        known = {(line.gpu, line.test, line.label): line.source for line in place.load().lines}
    except NoHistoryError:
        known = {}
    lines: list[HistoryLine] = []
    said = []
    for run in (run for ref in runs or (None,) for run in project.load_all(ref)):
        taken = lines_of(run, known, commit_date=commit_date(project.root, run.environment.commit), url=url)
        known |= {(line.gpu, line.test, line.label): line.source for line in taken.lines}
        lines += taken.lines
        said.append(f"{show_run(run)}, {run.environment.gpu.slug}: {count(len(taken.lines), 'time')}")
        said += _left_out(taken.left_out)
    added = place.add(lines)
    for line in (*said, *added.notes):
        echo(line)
    echo(f"{count(added.new, 'new line')} in {place.shown}")


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
@output_file("-o", "--output", help="Draw one test: .svg, .png or .pdf; needs matplotlib.")
@click.option(
    "--site",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Write a dashboard of all tests, one page for GitHub Pages, into this folder.",
)
@click.option("--changes", is_flag=True, help="List steps and creep; exit with 1 if a loss is open.")
@output_form
@store_options
def show_command(
    project: Project,
    store: str,
    test: str,
    last: int,
    output: Path | None,
    site: Path | None,
    changes: bool,
    form: str,
) -> None:
    """Show the times of TEST over its commits, or list all tests.

    TEST is a node id, or a part of one. A dot is a run, a hollow one of changed files; lines are errors. A
    loss is open if the time has not returned, and no run since is in the baseline.
    """
    if (output is not None) + (site is not None) + changes > 1:
        raise click.UsageError("--output, --site and --changes exclude each other.")
    if site is not None:
        _write_site(project, store, site)
        return
    found = search(project, store, test)
    shown = (found.series, found.ranges, found.order, found.notes)
    if output is not None:
        _draw(found, output)
    elif changes:
        show(changes_report(found.ranges, found.series, found.order, found.notes), form)
        if any(one.open for one in found.ranges):
            raise click.exceptions.Exit(1)
    else:
        show(detailed(*shown, width=screen().width, last=last) if test else overview(*shown), form)


def _write_site(project: Project, store: str, output: Path) -> None:
    from pytest_gpuperf.features.history.site import PAGE, write_site
    from pytest_gpuperf.features.page.source_links import source_links

    refuse_other_file(output / PAGE, "name another folder, or remove that file")
    found = search(project, store)
    links = source_links(project.root)
    size = write_site(output, found.series, found.ranges, found.order, links, found.notes)
    echo(f"wrote {show_path(output / PAGE)} ({count(len(found.series), 'time')}, {show_size(size)})")


def _draw(found: Searched, output: Path) -> None:
    from pytest_gpuperf.features.history.picture import picture_of_series
    from pytest_gpuperf.features.page.picture_file import FORMATS, draw

    form = output.suffix.removeprefix(".").lower()
    if form not in FORMATS:
        raise GpuperfError(
            f"a plot cannot be written as {output.name!r}", expected="a name that ends in .svg, .png or .pdf"
        )
    if len(found.series) > 1:
        names = ", ".join(one.name for one in found.series[:_CASES])
        raise GpuperfError(
            f"a picture has one test, and {count(len(found.series), 'test')} have that name: {names}, …",
            next_step="give more of the node id, with the label",
        )
    [series] = found.series
    data = draw(picture_of_series(series, found.ranges, found.order), form)
    write({output: data}, f"wrote {show_path(output)} ({count(len(series.points), 'run')})")
