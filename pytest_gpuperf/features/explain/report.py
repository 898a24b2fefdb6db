"""Diagnoses of calls and kernels as a report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_gpuperf.features.explain.diagnosis import lines_of
from pytest_gpuperf.records.call import with_label
from pytest_gpuperf.report.number_format import show_time
from pytest_gpuperf.report.table import KERNEL_COLUMNS, Column, Report, Table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_gpuperf.features.explain.diagnosis import Diagnosis

CALL = "the call"
"""Name of the row that is no kernel."""
MOST_SHOWN = 20
"""Maximum number of measurements in a table."""


@dataclass(frozen=True)
class Explained:
    """A call or the identical launches of a kernel, with their diagnoses."""

    name: str
    diagnoses: tuple[Diagnosis, ...]
    undiagnosed: str
    """Shown if there is no diagnosis."""
    times_us: tuple[float, float, float] | None = None
    """The least, the median and the largest duration in µs; None if unknown."""
    launches: int = 1
    share_pct: float | None = None
    """Share of the time of all kernels; None if unknown, or without others."""
    place: int | None = None
    """Place of the first launch in its file or call, from 0, if another row has the same name."""

    @property
    def title(self) -> str:
        """The name, after the place if that tells rows apart: `#1 copy_kernel`."""
        return self.name if self.place is None else f"#{self.place} {self.name}"


@dataclass(frozen=True)
class ExplainedMeasurement:
    """A measurement of a test, or a file."""

    nodeid: str
    """Empty for a file."""
    label: str
    rows: Sequence[Explained]
    left_out: int = 0
    """Number of launches that are not shown."""
    gpu: str = ""
    """Model of the GPU; empty for a file."""

    @property
    def title(self) -> str:
        """The test, with a label that is not the usual one."""
        return with_label(self.nodeid, self.label)


def explain_report(sections: Sequence[tuple[Sequence[str], Sequence[ExplainedMeasurement]]]) -> Report:
    """Return a table for each run or file, with a row for each call and kernel.

    Args:
        sections: Lines that say where values are from, and the measurements in order.
    """
    every = [one for _, found in sections for one in found]
    records = [record for one in every for record in _records(one)]
    return Report([_table(above, found) for above, found in sections], records)


def _table(above: Sequence[str], found: Sequence[ExplainedMeasurement]) -> Table:
    shown = found[:MOST_SHOWN]
    rows = [row for one in shown for row in one.rows]
    lines = [lines_of(row.diagnoses) or [row.undiagnosed] for row in rows]
    columns = [
        Column("test", [one.title for one in shown for _ in one.rows], "group"),
        Column("kernel", [row.title for row in rows], "name", code=True, most=KERNEL_COLUMNS),
        Column("launches", [str(row.launches) if row.launches > 1 else "" for row in rows]),
        Column("time", [show_time(row.times_us[1]) if row.times_us else "" for row in rows]),
        Column("from … to", list(map(_spread, rows))),
        Column("share", ["" if row.share_pct is None else f"{row.share_pct:.0f} %" for row in rows]),
        Column("diagnosis", list(map("\n".join, lines)), "detail"),
    ]
    notes = [note for one in shown if (note := _left_out(one))]
    if more := len(found) - len(shown):
        notes.append(f"{more} more: choose with gpuperf explain latest::TEST, --json has all")
    return Table(columns if rows else (), above, notes)


def _spread(row: Explained) -> str:
    if row.times_us is None or row.launches == 1:
        return ""
    least, _, most = map(show_time, row.times_us)
    return f"{least} … {most}"


def _left_out(found: ExplainedMeasurement) -> str:
    if not found.left_out:
        return ""
    where = f"{found.title}: " if found.title else ""
    return f"{where}{found.left_out} shorter launches are left out; a regex chooses among them"


def _records(found: ExplainedMeasurement) -> Iterator[dict[str, Any]]:
    """Yield a row for each diagnosis, and for each row without one; then one for each change."""
    of_test = {"gpu": found.gpu, "test": found.nodeid, "label": found.label}
    for row in found.rows:
        facts = {
            "kernel": "" if row.name == CALL else row.name,
            "launch": row.place,
            "launches": row.launches,
            "time_us": row.times_us[1] if row.times_us else None,
            "share_pct": row.share_pct,
        }
        said = [(one.code, one.line, one.next_step) for one in row.diagnoses] or [("", row.undiagnosed, "")]
        for code, line, step in said:
            yield {**of_test, **facts, "rule": code, "text": line, "next_step": step}
