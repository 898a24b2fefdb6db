"""Read the output of `ncu --csv`, if there is no report.

Two layouts are supported: wide (`--page raw`: a row of names, a row of units, a row for each kernel) and long
(any other page, or `--metrics`: a row for each metric). ncu rounds CSV values, so a report is better.
Other lines may stand before the header. After it every line is a row, and any other line is an error, because
a truncated file would otherwise look like a smaller run.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.ncu.details_page import raw_name
from pytest_gpuperf.measure.ncu.printed import Cell, Launch, broken, read_launches
from pytest_gpuperf.measure.ncu.rules import rule_from_csv

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_gpuperf.measure.ncu.raw_kernel import RawKernel

_EXTENT = re.compile(r"\((\d{1,10}), (\d{1,10}), (\d{1,10})\)")
_QUOTED = re.compile(r'"([^"]*)"')
_RANGE_COLUMNS = re.compile(r".*:(Push/Pop|Start/Stop)_Range:|(?:Domain|Range):")
_FACTS = frozenset(
    {
        *("ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Kernel Time", "Context", "Stream"),
        *("Block Size", "Grid Size", "Device", "CC"),
    }
)
"""Columns of the raw page that are facts of a launch."""
_LONG = ("ID", "Kernel Name", "Metric Name", "Metric Unit", "Metric Value")
_SUMMARY = frozenset({"Metric Name", "Average"})
"""Columns of the means that `--print-summary` prints, which are refused."""
_FENCE = "```"


@dataclass(frozen=True)
class _Row:
    line: int
    fields: list[str]


class NoHeaderError(GpuperfError):
    """The text is not ncu CSV."""


def read_csv(text: str, notes: list[str] | None = None) -> list[RawKernel]:
    """Read all kernels of `ncu --csv` output, in their order.

    Values are in ncu's base units (`ns`, `byte`), as in a report, but rounded as printed.

    Args:
        text: The output, with or without `==PROF==` lines.
        notes: Takes sentences about what was read.

    Raises:
        NoHeaderError: The text lacks the header of ncu CSV.
        GpuperfError: A line after the header is not a whole row.
    """
    rows = _rows(text)
    header = next(rows).fields
    if "Metric Name" not in header:
        launches = _read_wide(header, rows)
    elif missing := [name for name in _LONG if name not in header]:
        raise GpuperfError(
            f"the CSV text has metric names but no column `{missing[0]}`",
            expected="a row for each metric of each launch, as `ncu --csv` prints without --print-summary",
            next_step="print it again from the report: `ncu --import REPORT --page raw --csv`",
        )
    else:
        launches = _read_long(header, rows)
    return read_launches(launches, [] if notes is None else notes)


def _rows(text: str) -> Iterator[_Row]:
    """Yield the header and all rows after it, with the numbers of their last lines."""
    lines = text.removeprefix("\ufeff").split("\n")
    # ncu writes its messages between the rows if both go to one stream.
    kept = [i for i, line in enumerate(lines) if not line.startswith("==")]
    start = next((k for k, i in enumerate(kept) if _is_header(lines[i])), None)
    if start is None:
        raise NoHeaderError(
            "the text has no header of ncu CSV",
            expected='a line with the columns "ID" and "Kernel Name"',
            next_step="print the report with `ncu --import REPORT --page raw --csv`",
        )
    fences = [k for k, i in enumerate(kept) if lines[i].strip() == _FENCE and k > start]
    kept = kept[start : fences[0] if fences else None]
    reader = csv.reader((lines[i] + "\n" for i in kept), strict=True)
    header: list[str] = []
    try:
        for fields in reader:
            if fields:
                row = _Row(kept[reader.line_num - 1] + 1, fields)
                if fields == header:
                    raise broken(row.line, "the header is there again, from another output")
                header = header or fields
                yield row
    except csv.Error as error:
        raise broken(kept[reader.line_num - 1] + 1, str(error)) from error


def _is_header(line: str) -> bool:
    if "Name" not in line:
        return False
    try:
        columns = {column for row in csv.reader([line + "\n"], strict=True) for column in row}
    except csv.Error:
        return False
    return columns >= {"ID", "Kernel Name"} or columns >= _SUMMARY


def _read_wide(header: list[str], rows: Iterator[_Row]) -> list[Launch]:
    columns = {
        name: i for i, name in enumerate(header) if name not in _FACTS and not _RANGE_COLUMNS.match(name)
    }
    units: list[str] | None = None
    launches: list[Launch] = []
    for row in rows:
        if len(row.fields) != len(header):
            raise broken(row.line, f"{len(row.fields)} fields, the header has {len(header)}")
        if units is None:
            if row.fields[header.index("ID")]:
                raise broken(row.line, "it has an ID, but the units come first")
            units = row.fields
            continue
        launch = _launch(header, row)
        launch.cells += [Cell(name, row.fields[i], units[i], row.line) for name, i in columns.items()]
        launches.append(launch)
    return launches


def _read_long(header: list[str], rows: Iterator[_Row]) -> list[Launch]:
    # Rows of metrics lack the columns of rules at the end.
    least = max(map(header.index, _LONG)) + 1
    launches: dict[str, Launch] = {}
    for row in rows:
        if not least <= len(row.fields) <= len(header):
            raise broken(row.line, f"{len(row.fields)} fields instead of {least} to {len(header)}")
        cells = dict(zip(header, row.fields, strict=False))
        launch = launches.setdefault(cells["ID"], _launch(header, row))
        rule = rule_from_csv(cells)
        if rule is not None:
            launch.rules.append(rule)
            continue
        name = raw_name(cells.get("Section Name", ""), cells["Metric Name"])
        launch.cells.append(Cell(name, cells["Metric Value"], cells["Metric Unit"], row.line))
    return list(launches.values())


def _launch(header: Sequence[str], row: _Row) -> Launch:
    cells = dict(zip(header, row.fields, strict=False))
    # A range is "domain:name:" and six fields of its payload, colour and message; a start/end range begins
    # with its number.
    ranges = [
        quoted.split(":", str(columns[1]).startswith("Start") + 1)[-1].rsplit(":", 6)[0]
        for column, cell in cells.items()
        if (columns := _RANGE_COLUMNS.match(column))
        for quoted in _QUOTED.findall(cell)
    ]
    device = cells.get("Device", "")
    return Launch(
        demangled=cells["Kernel Name"],
        grid=_extent(cells.get("Grid Size"), row.line),
        block=_extent(cells.get("Block Size"), row.line),
        compute_capability=cells.get("CC", ""),
        device=int(device) if device.isdecimal() else None,
        ranges=tuple(ranges),
    )


def _extent(cell: str | None, line: int) -> tuple[int, int, int]:
    if cell is None:
        return 0, 0, 0
    match = _EXTENT.fullmatch(cell)
    if match is None:
        raise broken(line, f"{cell!r} is not an extent like (128, 1, 1)")
    x, y, z = (int(group) for group in match.groups())
    return x, y, z
