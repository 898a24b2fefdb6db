"""The records of a report as CSV, with all digits."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_gpuperf.report.table import Report, Screen


def render(report: Report, screen: Screen) -> str:
    """Return a line of field names, and one line for each record; lists are joined by spaces.

    Booleans are `yes` and `no`.
    """
    del screen  # for people only
    stream = io.StringIO()
    fields = dict.fromkeys(field for record in report.records for field in record)
    writer = csv.DictWriter(stream, list(fields), lineterminator="\n")
    writer.writeheader()
    for record in report.records:
        writer.writerow({field: _flat(value) for field, value in record.items()})
    return stream.getvalue()


def _flat(value: object) -> object:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return " ".join(map(str, value)) if isinstance(value, (list, tuple)) else value
