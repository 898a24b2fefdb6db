"""The whole page: one file with its style, scripts and data, which asks for no other file."""

from __future__ import annotations

from collections import Counter
from itertools import chain
from typing import TYPE_CHECKING

from pytest_gpuperf.features.page.details import details_of
from pytest_gpuperf.features.page.gpu_model_table import overview
from pytest_gpuperf.features.page.main_table import entries_of, table_pieces
from pytest_gpuperf.features.page.markup import AT_ONCE, items, link, packed, sentence, text, whole_page
from pytest_gpuperf.records.change import printable
from pytest_gpuperf.report.notices import notices, undecided
from pytest_gpuperf.report.number_format import count
from pytest_gpuperf.report.rows import SEVERITY, header_lines
from pytest_gpuperf.session.progress import ERROR

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_gpuperf.features.page.main_table import TableEntry
    from pytest_gpuperf.features.page.run_section import Section
    from pytest_gpuperf.report.table import Tone


def page_pieces(sections: Sequence[Section]) -> Iterator[bytes]:
    """Yield the page, UTF-8.

    Args:
        sections: One for each run; at least one.
    """
    entries = [entries_of(section.summary.results) for section in sections]
    title = f"Performance of GPU kernels: {_counted(list(chain.from_iterable(entries))) or 'no tests'}"
    if errors := sum(len(_errors(section)) for section in sections):
        title += f", {count(errors, 'error')}"
    for piece in whole_page(title, "page/page.css", "page/page.js", _content(title, sections, entries)):
        yield piece.encode()


def _content(
    title: str, sections: Sequence[Section], entries: Sequence[Sequence[TableEntry]]
) -> Iterator[str]:
    yield f"<header><h1>{text(title)}</h1>\n"
    yield overview(sections, entries)
    yield f"{_navigation(sections, entries)}</header>\n<main>\n"
    first = 0
    for number, (section, some) in enumerate(zip(sections, entries, strict=True)):
        yield from _section(section, number, some, first)
        first += len(some)
    yield "</main>\n"


def _errors(section: Section) -> list[str]:
    """Return the errors that fail a run and are of no test."""
    return [line for line in section.summary.notices if line.startswith(ERROR)]


def _counts(entries: Sequence[TableEntry]) -> dict[tuple[str, Tone], int]:
    """Count the rows of each verdict, the worst first; a test has a row for each of its calls."""
    worst_first = sorted(entries, key=lambda entry: SEVERITY[entry.row.status])
    return Counter((entry.row.verdict, entry.row.tone) for entry in worst_first)


def _counted(entries: Sequence[TableEntry]) -> str:
    return ", ".join(f"{number:,} {verdict}" for (verdict, _), number in _counts(entries).items())


def _navigation(sections: Sequence[Section], entries: Sequence[Sequence[TableEntry]]) -> str:
    if len(sections) < 2:
        return ""
    links = "".join(
        f'<li><a href="#s{number}">{text(section.title)}</a> '
        f"<span>{text(section.run.id)}: {_counted(some)}</span></li>"
        for number, (section, some) in enumerate(zip(sections, entries, strict=True))
    )
    return f'<nav aria-label="GPU models"><ul>{links}</ul></nav>'


def _section(section: Section, number: int, entries: Sequence[TableEntry], first: int) -> Iterator[str]:
    data = f'data-first="{first}" data-pack="{AT_ONCE}"'
    yield f'<section id="s{number}" aria-labelledby="h{number}" {data}>\n'
    yield f'<h2 id="h{number}">{text(section.title)}</h2>\n{_source(section)}'
    errors, summary = _errors(section), section.summary
    for line in errors:
        error = f'<span class="verdict">error</span> {sentence(line.removeprefix(ERROR))}'
        yield f'<div class="finding bad">{error}</div>\n'
    facts = [line for line in summary.notices if line not in errors]
    if lines := [*notices(summary), *facts, *undecided(summary.results)]:
        shown = count(len(lines), "notice")
        yield f"<details><summary>{shown}</summary>{items(lines, 'notices')}</details>\n"
    yield _list_of_counts(entries)
    if section.summary.results:
        yield from table_pieces(entries, first)
        yield '<noscript><p class="note">Sorting, filtering and the details of each test need JavaScript.</p>'
        yield "</noscript>\n"
    else:
        yield '<p class="note">The run has no tests that measured anything.</p>\n'
    yield from packed([details_of(section, entry.result, entry.label) for entry in entries])
    yield "</section>\n"


def _source(section: Section) -> str:
    """Return the tools and versions behind the values, the run and its commit."""
    run, environment = section.run, section.run.environment
    [tools, *_] = header_lines(environment, None) or [""]
    versions = (tools.rpartition(", commit ")[0] or tools).removeprefix(f"{printable(section.title)}, ")
    parts = [text(versions), f"run {text(run.id)} of {text(run.started_at[:10])}"]
    if environment.commit:
        commit = link(section.links.of_commit(environment.commit), environment.commit[:7])
        changes = " with changes" if environment.dirty else ""
        parts.append(f"commit {commit}{changes}")
    if not run.complete:
        parts.append("interrupted before its end")
    return f'<p class="source">{" · ".join(parts)}</p>\n'


def _list_of_counts(entries: Sequence[TableEntry]) -> str:
    shown = "".join(
        f'<li class="{tone}"><span class="verdict">{number:,} {text(verdict)}</span></li>'
        for (verdict, tone), number in _counts(entries).items()
    )
    return f'<ul class="counts" aria-label="{count(len(entries), "row")} by verdict">{shown}</ul>\n'
