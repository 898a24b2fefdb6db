"""Dashboard of a history: one page with its style, scripts and data, which asks for no other file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gpuperf.features.history.picture import picture_of_series
from pytest_gpuperf.features.history.series_report import show_four_digits, steps_of
from pytest_gpuperf.features.history.steps_report import searched_line, show_interval, steps_table
from pytest_gpuperf.features.page.markup import AT_ONCE, html_table, link, packed, text, whole_page
from pytest_gpuperf.features.page.svg_renderer import svg
from pytest_gpuperf.records.files import write_files
from pytest_gpuperf.report.number_format import count
from pytest_gpuperf.report.table import Column, Table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from pytest_gpuperf.features.history.commit_order import Order
    from pytest_gpuperf.features.history.commit_ranges import Range
    from pytest_gpuperf.features.history.series import TimeSeries
    from pytest_gpuperf.features.page.run_section import SourceLinks

PAGE = "index.html"


def write_site(
    folder: Path, series: Sequence[TimeSeries], ranges: Sequence[Range], order: Order, links: SourceLinks
) -> int:
    """Write the dashboard into a folder.

    Args:
        folder: The folder; need not exist.
        series: The times to draw.
        ranges: The steps found in them.
        order: Order of their points.
        links: Addresses of commits.

    Returns:
        Size of the page, in bytes.

    Raises:
        OSError: The page cannot be written.
    """
    content = _content(series, ranges, order, links)
    pieces = whole_page("gpuperf history", "history/dashboard.css", "history/dashboard.js", content)
    page = "".join(pieces).encode()
    write_files({folder / PAGE: page})
    return len(page)


def _content(
    series: Sequence[TimeSeries], ranges: Sequence[Range], order: Order, links: SourceLinks
) -> Iterator[str]:
    yield f"<header><h1>gpuperf history: {text(searched_line(series))}</h1>"
    yield f'<p class="source">{text(f"Points are {order.shown}")}</p></header>\n<main>\n<h2>Changes</h2>\n'
    numbers = {id(one): f"#t{number}" for number, one in enumerate(series)}
    yield "" if ranges else '<p class="note">No change was found.</p>\n'
    for one in reversed(ranges):
        tone = "bad" if one.open else "good" if all(f.status == "faster" for f in one.found) else "pass"
        table = steps_table(one)
        head, *more = table.above
        tests = {(row, 0): numbers[id(found.series)] for row, found in enumerate(one.found)}
        yield f'<div class="range {tone}" data-gpu="{text(one.after.gpu)}"><p>'
        yield f"<strong>{link(_comparison(one, links), head)}</strong></p>"
        yield "".join(f"<p>{text(line)}</p>" for line in more)
        yield f"{html_table(table, one.shown, tests)}</div>\n"
    yield f'<h2>Times</h2>\n<div class="series" data-pack="{AT_ONCE}">\n'
    for number, some in enumerate(series):
        yield _article(number, some, ranges)
    yield from packed([_details(some, ranges, order, links) for some in series])
    yield "</div>\n<noscript><p class='note'>Pictures and filters need JavaScript.</p></noscript>\n</main>\n"


def _comparison(one: Range, links: SourceLinks) -> str:
    """Return the address of the commits of a range; empty if it is not known."""
    if not (links.repository and one.before.known_commit and one.after.known_commit):
        return ""
    return f"{links.repository}/compare/{one.before.commit}...{one.after.commit}"


def _article(number: int, series: TimeSeries, ranges: Sequence[Range]) -> str:
    found = steps_of(series, ranges)
    newest = show_four_digits(series.points[-1].time_us)
    facts = [series.origin, newest, count(len(series.points), "run")]
    facts += [f"{show_interval(found[-1])}, {found[-1].status}"] if found else []
    return (
        f'<article id="t{number}" data-gpu="{text(series.newest.gpu)}" '
        f'data-suite="{text(series.name.partition("::")[0])}" data-changes="{len(found)}">'
        f'<h3>{text(series.name)}</h3><p class="source">{text(" · ".join(facts))}</p>'
        '<div class="place"></div></article>\n'
    )


def _details(series: TimeSeries, ranges: Sequence[Range], order: Order, links: SourceLinks) -> str:
    """Return the picture of a series, and its runs."""
    points = series.points[::-1]
    lines = [point.line for point in points]
    titles = {"driver": "driver", "torch": "torch", "triton": "Triton"}
    columns = [
        Column("commit", [line.shown for line in lines], "name"),
        Column("run", [line.run for line in lines], "name"),
        Column("time", [show_four_digits(point.time_us) for point in points]),
        Column("card", [line.gpu_uuid[:12] for line in lines], "name"),
        *(Column(title, [getattr(line, name) for line in lines], "name") for name, title in titles.items()),
    ]
    addresses: Mapping[tuple[int, int], str] = {
        (row, column): address
        for row, line in enumerate(lines)
        for column, address in enumerate((links.of_commit(line.known_commit), line.url))
        if address.startswith(("https://", "http://"))
    }
    table = html_table(Table(columns), f"Runs of {series.name}", addresses)
    return (
        f"{svg(picture_of_series(series, ranges, order, links))}<details><summary>Runs</summary>"
        f'<div class="scroll" role="region" tabindex="0" aria-label="Runs">{table}</div></details>'
    )
