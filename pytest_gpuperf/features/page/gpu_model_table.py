"""Table of the tests with a column for each GPU model: verdicts, times and changes next to each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gpuperf.features.page.markup import html_table
from pytest_gpuperf.report.number_format import count
from pytest_gpuperf.report.rows import SEVERITY
from pytest_gpuperf.report.table import Column, Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_gpuperf.features.page.main_table import TableEntry
    from pytest_gpuperf.features.page.run_section import Section

TESTS_SHOWN = 100
"""Maximum number of tests in the table, the worst ones."""


def overview(sections: Sequence[Section], entries: Sequence[Sequence[TableEntry]]) -> str:
    """Return the table; empty for a single section.

    Args:
        sections: The sections.
        entries: The rows of each section, in the order in which the page numbers them.
    """
    if len(sections) < 2:
        return ""
    rows: dict[str, dict[int, tuple[int, TableEntry]]] = {}
    number = 0
    for column, some in enumerate(entries):
        for entry in some:
            rows.setdefault(entry.name, {})[column] = (number, entry)
            number += 1
    names = sorted(rows, key=lambda name: min(SEVERITY[entry.row.status] for _, entry in rows[name].values()))
    shown = names[:TESTS_SHOWN]
    columns = [Column("test", shown, "name", code=True)]
    links: dict[tuple[int, int], str] = {}
    for column, section in enumerate(sections):
        found = [rows[name].get(column) for name in shown]
        links |= {(row, column + 1): f"#t{one[0]}" for row, one in enumerate(found) if one}
        cells = [one[1].summary if one else "not in the run" for one in found]
        tones = [one[1].row.tone if one else "" for one in found]
        columns.append(Column(section.title, cells, left=True, tones=tones))
    more = len(names) - len(shown)
    left_out = f" {count(more, 'more test')} in the tables below." if more > 0 else ""
    notes = [f"Tests on all GPU models, the worst verdict first.{left_out}"]
    table = html_table(Table(columns, notes=notes), "All GPU models", links)
    return f'<div class="scroll" role="region" tabindex="0" aria-label="All GPU models">{table}</div>\n'
