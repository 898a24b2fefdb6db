"""Dashboard of a history: one page with its style, scripts and data, which asks for no other file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from pytest_gpuperf._version import __version__
from pytest_gpuperf.features.history.changes_report import TONES, range_lines, searched_line, show_interval
from pytest_gpuperf.features.history.picture import picture_of_series
from pytest_gpuperf.features.history.series_report import show_four_digits
from pytest_gpuperf.features.page.markup import asset, digest, items, link, packed, text
from pytest_gpuperf.records.writing import write_files
from pytest_gpuperf.report.own_files import GENERATOR
from pytest_gpuperf.report.show import count

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from pytest_gpuperf.features.history.order import Order
    from pytest_gpuperf.features.history.ranges import Range
    from pytest_gpuperf.features.history.record import HistoryLine
    from pytest_gpuperf.features.history.series import Point, Series
    from pytest_gpuperf.features.page.section import SourceLinks

PAGE = "index.html"
PACK = 16
"""Number of series whose data are packed together: alike ones pack well, and few are unpacked for one."""


def write_site(
    folder: Path,
    series: Sequence[Series],
    ranges: Sequence[Range],
    order: Order,
    links: SourceLinks,
    notes: Sequence[str] = (),
) -> int:
    """Write the dashboard into a folder.

    Args:
        folder: The folder; need not exist.
        series: The times to draw.
        ranges: The changes found in them.
        order: Order of their points.
        links: Addresses of commits.
        notes: Lines about the history as a whole.

    Returns:
        Size of the page, in bytes.

    Raises:
        OSError: The page cannot be written.
    """
    page = "".join(_page(series, ranges, order, links, notes)).encode()
    write_files({folder / PAGE: page})
    return len(page)


def _page(
    series: Sequence[Series],
    ranges: Sequence[Range],
    order: Order,
    links: SourceLinks,
    notes: Sequence[str],
) -> Iterator[str]:
    style = asset("page.css") + asset("picture.css") + asset("site.css", __package__)
    script = asset("picture.js") + asset("site.js", __package__)
    policy = f"default-src 'none'; style-src {digest(style)}; script-src {digest(script)}; base-uri 'none'"
    yield '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
    yield f'{GENERATOR} history {text(__version__)}">\n<meta name="viewport" content="width=device-width">\n'
    yield f'<meta http-equiv="Content-Security-Policy" content="{policy}; form-action \'none\'">\n'
    yield '<meta name="referrer" content="no-referrer"><meta name="color-scheme" content="light dark">\n'
    yield f"<title>gpuperf history</title>\n<style>{style}</style></head>\n<body>\n"
    yield f"<header><h1>gpuperf history: {text(searched_line(series))}</h1>"
    yield f'<p class="source">{text(f"Points are {order.shown}")}</p></header>\n<main>\n'
    yield "<h2>Changes</h2>\n"
    yield from _changes(series, ranges, links)
    yield f'<h2>Times</h2>\n<div class="series" data-pack="{PACK}">\n'
    for number, one in enumerate(series):
        yield _article(number, one, ranges)
    yield "</div>\n<noscript><p class='note'>Pictures and filters need JavaScript.</p></noscript>\n"
    rows = {run: f"r{number}" for number, run in enumerate(_runs(series))}
    yield from _run_table(_runs(series), rows, links)
    yield f"{items(notes, 'notices')}</main>\n"
    yield f"<footer>Written by pytest-gpuperf {text(__version__)}.</footer>\n"
    for start in range(0, len(series), PACK):
        data = [_data(one, ranges, order, links, rows) for one in series[start : start + PACK]]
        yield f'<script type="text/plain" class="packed">{packed(data)}</script>\n'
    yield f"<script>{script}</script>\n</body></html>\n"


def _changes(series: Sequence[Series], ranges: Sequence[Range], links: SourceLinks) -> Iterator[str]:
    numbers = {id(one): number for number, one in enumerate(series)}
    if not ranges:
        yield '<p class="note">No change was found.</p>\n'
    for one in reversed(ranges):
        [head, *more] = range_lines(one)
        tone = "bad" if one.open else "good" if all(f.status == "faster" for f in one.found) else "pass"
        yield f'<div class="range {tone}" data-gpu="{text(one.gpu)}"><p><strong>'
        yield f"{link(_compare(one, links), head)}</strong></p>"
        yield "".join(f"<p>{text(line)}</p>" for line in more)
        yield "<table><thead><tr>"
        yield "".join(f'<th scope="col">{title}</th>' for title in ("test", "change", "kind", "status"))
        yield "</tr></thead><tbody>"
        for found in one.found:
            name = f'<a href="#t{numbers[id(found.series)]}">{text(found.series.name)}</a>'
            tone = TONES[found.status] or "pass"
            note = f" {text(found.note)}" if found.note else ""
            verdict = f'<span class="{tone}"><span class="verdict">{found.status}</span></span>{note}'
            cells = (name, text(show_interval(found)), found.change.kind, verdict)
            yield f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
        yield "</tbody></table></div>\n"


def _compare(one: Range, links: SourceLinks) -> str:
    """Return the address of the commits of a range; empty if it is not known."""
    if not (links.repository and one.before.known_commit and one.after.known_commit):
        return ""
    return f"{links.repository}/compare/{one.before.commit}...{one.after.commit}"


def _article(number: int, series: Series, ranges: Sequence[Range]) -> str:
    found = [each for one in ranges for each in one.found if each.series is series]
    suite = series.test.partition("::")[0]
    newest = series.points[-1]
    facts = (
        series.gpu_name,
        f"{series.mode} by {series.source}",
        show_four_digits(newest.time_us),
        count(len(series.points), "run"),
        *([f"{show_interval(found[-1])}, {found[-1].status}"] if found else ()),
    )
    return (
        f'<article id="t{number}" data-gpu="{text(series.gpu)}" data-suite="{text(suite)}" '
        f'data-changes="{len(found)}"><h3>{text(series.name)}</h3>'
        f'<p class="source">{text(" · ".join(facts))}</p><div class="place"></div>'
        "<details><summary>Runs</summary></details></article>\n"
    )


def _runs(series: Sequence[Series]) -> dict[tuple[str, str], HistoryLine]:
    """Return a line of each run, newest first."""
    lines = {(point.line.gpu, point.line.run): point.line for one in series for point in one.points}
    return dict(sorted(lines.items(), key=lambda item: (item[1].date, item[0]), reverse=True))


def _run_table(
    runs: Mapping[tuple[str, str], HistoryLine], rows: Mapping[tuple[str, str], str], links: SourceLinks
) -> Iterator[str]:
    titles = ("run", "date", "commit", "GPU", "card", "driver", "torch", "Triton")
    yield '<h2>Runs</h2>\n<div class="scroll" tabindex="0" role="region" aria-label="All runs">'
    yield "<table><thead><tr>"
    yield "".join(f'<th scope="col">{title}</th>' for title in titles)
    yield "</tr></thead><tbody>\n"
    for line in runs.values():
        commit = line.commit[:7] + ("+" if line.commit and line.dirty else "")
        cells = (
            link(line.url, line.run),
            text(line.date[:16].replace("T", " ")),
            link(links.of_commit(line.known_commit), commit),
            *map(text, (line.gpu_name or line.gpu, line.gpu_uuid[:12], line.driver, line.torch, line.triton)),
        )
        yield f'<tr id="{rows[line.gpu, line.run]}">{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>\n'
    yield "</tbody></table></div>\n"


def _data(
    series: Series,
    ranges: Sequence[Range],
    order: Order,
    links: SourceLinks,
    rows: Mapping[tuple[str, str], str],
) -> dict[str, object]:
    return {
        "picture": msgspec.to_builtins(picture_of_series(series, ranges, order, links)),
        "runs": [_run(point, links, rows) for point in reversed(series.points)],
    }


def _run(point: Point, links: SourceLinks, rows: Mapping[tuple[str, str], str]) -> dict[str, str]:
    line = point.line
    return {
        "commit": point.commit,
        "address": links.of_commit(line.known_commit),
        "run": line.run,
        "row": rows[line.gpu, line.run],
        "job": line.url,
        "time": show_four_digits(point.time_us),
        "card": line.gpu_uuid[:12],
    }
