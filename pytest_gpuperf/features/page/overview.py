"""Table of the tests with a column for each GPU model: verdicts, times and changes next to each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gpuperf.features.page.markup import text
from pytest_gpuperf.report.rows import SEVERITY, TONES
from pytest_gpuperf.report.show import count, show_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_gpuperf.features.page.main_table import Entry
    from pytest_gpuperf.features.page.section import Section

TESTS_SHOWN = 100
"""Maximum number of tests in the table, the worst ones."""


def overview_pieces(sections: Sequence[Section], entries: Sequence[Sequence[Entry]]) -> Iterator[str]:
    """Yield the table; nothing for a single section.

    Args:
        sections: The sections.
        entries: The rows of each section, in the order in which the page numbers them.
    """
    if len(sections) < 2:
        return
    rows: dict[tuple[str, str], dict[int, tuple[int, Entry]]] = {}
    number = 0
    for column, some in enumerate(entries):
        for entry in some:
            rows.setdefault((entry.result.record.nodeid, entry.label), {})[column] = (number, entry)
            number += 1
    shown = sorted(rows, key=lambda key: min(SEVERITY[entry.row.status] for _, entry in rows[key].values()))
    yield '<div class="scroll" role="region" tabindex="0" aria-label="All GPU models">\n<table><caption>'
    more = len(shown) - TESTS_SHOWN
    left_out = f" {count(more, 'more test')} in the tables below." if more > 0 else ""
    yield f"Tests on all GPU models, the worst verdict first.{left_out}</caption>\n"
    yield '<thead><tr><th scope="col" class="name">test</th>'
    yield "".join(f'<th scope="col">{text(section.title)}</th>' for section in sections)
    yield "</tr></thead>\n<tbody>"
    for nodeid, label in shown[:TESTS_SHOWN]:
        name = nodeid if label == "main" else f"{nodeid} ({label})"
        yield f'<tr><th scope="row" class="name">{text(name)}</th>'
        yield "".join(_cell(rows[nodeid, label].get(column)) for column in range(len(sections)))
        yield "</tr>\n"
    yield "</tbody></table></div>\n"


def _cell(found: tuple[int, Entry] | None) -> str:
    if found is None:
        return "<td>not in the run</td>"
    number, entry = found
    status = entry.row.status
    timing = entry.measurement.timing if entry.measurement else None
    time = show_time(timing.time_us) if timing else ""
    change = entry.row.change if entry.row.change != status.value else ""
    verdict = f'<a class="verdict" href="#t{number}">{status.value}</a>'
    values = ", ".join(filter(None, (time, change)))
    return f'<td class="{TONES[status]}">{verdict} {text(values)}</td>'
