"""Read the output of `ncu --csv`, if there is no report.

Two layouts are supported: wide (`--page raw`: a row of names, a row of units, a row for each kernel) and long
(`--metrics`: a row for each metric, by its raw name). ncu rounds CSV values, so a report is better. Several
outputs may follow each other in a file. Other lines may stand before the header. After it every line is a
row, and any other line is an error, because a truncated file would otherwise look like a smaller run.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.features.ncu.csv_values import CsvValue, Launch, broken, read_launches

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pytest_gpuperf.features.ncu.file_kernel import FileKernel

_EXTENT = re.compile(r"\((\d{1,10}), (\d{1,10}), (\d{1,10})\)")
_CUT = re.compile(r"(?<![<\w])unnamed>::|(?<=\w)<unnamed>::")
"""Names whose brackets ncu cuts: `a::unnamed>::k` and `k<unnamed>::F>`."""
_QUOTED = re.compile(r'"([^"]*)"')
_RANGE_COLUMNS = re.compile(r".*:(Push/Pop|Start/Stop)_Range:|(?:Domain|Range):")
_FACTS = (
    *("ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Kernel Time", "Context", "Stream"),
    *("Block Size", "Grid Size", "Device", "CC"),
)
"""Columns that are facts of a launch."""
_LONG = ("ID", "Kernel Name", "Metric Name", "Metric Unit", "Metric Value")
_SUMMARY = frozenset({"Metric Name", "Average"})
"""Columns of the means that `--print-summary` prints, which are refused."""
_FENCE = "```"
_REQUESTED = "Command line profiler metrics"
"""Section of metrics by `--metrics`, some of which have old names, such as `inst_executed`."""
_RAW_NAME = re.compile(r"\b(\w+__[\w.]+)\)?$")
"""Raw name, alone or after its label (`--print-metric-name label-name`)."""
_MARK = re.compile(r"\x1b\[[\d;]*m|\ufeff")
"""Colour, or a byte-order mark, of which files that follow each other have several."""
_Line = tuple[int, str]
"""Number in the file, from 1, and text."""


@dataclass(frozen=True)
class _CsvRow:
    line: int
    fields: list[str]


class NoHeaderError(GpuperfError):
    """The text is not ncu CSV."""


def read_csv(text: str, notes: list[str] | None = None) -> list[FileKernel]:
    """Read all kernels of `ncu --csv` output, in their order.

    Values are in ncu's base units (`ns`, `byte`), as in a report, but rounded as printed.

    Args:
        text: The output, with or without `==PROF==` lines.
        notes: Takes sentences about what was read.

    Raises:
        NoHeaderError: The text lacks the header of ncu CSV.
        GpuperfError: A line after the header is not a whole row.
    """
    lines = list(enumerate(_MARK.sub("", text).split("\n"), 1))
    outputs = list(_outputs(lines))
    if not outputs:
        raise NoHeaderError(
            "the text has no header of ncu CSV",
            expected='a line with the columns "ID" and "Kernel Name"',
            next_step="print the report with `ncu --import REPORT --page raw --csv`",
        )
    notes = [] if notes is None else notes
    return read_launches([launch for output in outputs for launch in _launches(output)], notes)


def _outputs(lines: list[_Line]) -> Iterable[list[_Line]]:
    """Split the lines at each header; those before the first one are left out."""
    # ncu writes its messages between the rows if both go to one stream.
    lines = [(number, line) for number, line in lines if not line.startswith("==")]
    starts = [index for index, (_, line) in enumerate(lines) if _is_header(line)]
    for start, end in pairwise([*starts, len(lines)]):
        # What the next program has printed is before the next header.
        while end < len(lines) and '"' in lines[start][1] and '"' not in lines[end - 1][1]:
            end -= 1
        fences = (index for index in range(start, end) if lines[index][1].strip() == _FENCE)
        yield lines[start : next(fences, end)]


def _launches(output: list[_Line]) -> list[Launch]:
    rows = _rows(output)
    header = next(rows).fields
    if "Metric Name" not in header:
        return _read_wide(header, rows)
    if missing := [name for name in _LONG if name not in header]:
        raise GpuperfError(
            f"the CSV text has metric names but no column `{missing[0]}`",
            expected="a row for each metric of each launch, as `ncu --csv` prints without --print-summary",
            next_step="print it again from the report: `ncu --import REPORT --page raw --csv`",
        )
    return _read_long(header, rows)


def _rows(lines: list[_Line]) -> Iterator[_CsvRow]:
    """Yield the header and all rows after it, with the numbers of their last lines."""
    reader = csv.reader((line + "\n" for _, line in lines), strict=True)
    try:
        for fields in reader:
            if fields:
                yield _CsvRow(lines[reader.line_num - 1][0], fields)
    except csv.Error as error:
        raise broken(lines[reader.line_num - 1][0], str(error)) from error


def _is_header(line: str) -> bool:
    if "Name" not in line:
        return False
    try:
        columns = {column for row in csv.reader([line + "\n"], strict=True) for column in row}
    except csv.Error:
        return False
    return columns >= {"ID", "Kernel Name"} or columns >= _SUMMARY


def _read_wide(header: list[str], rows: Iterator[_CsvRow]) -> list[Launch]:
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
        launch.cells |= {name: CsvValue(row.fields[i], units[i], row.line) for name, i in columns.items()}
        launches.append(launch)
    return launches


def _read_long(header: list[str], rows: Iterator[_CsvRow]) -> list[Launch]:
    # Rows of metrics lack the columns of rules at the end.
    least = max(map(header.index, _LONG)) + 1
    launches: list[Launch] = []
    newest: dict[tuple[str, ...], Launch] = {}
    row = None
    for row in rows:
        if not least <= len(row.fields) <= len(header):
            raise broken(row.line, f"{len(row.fields)} fields instead of {least} to {len(header)}")
        cells = dict(zip(header, row.fields, strict=False))
        name = _name(cells)
        if not name:
            continue
        key = tuple(cells.get(fact, "") for fact in _FACTS)
        # Numbers of launches start again in a process that starts again, also in one with the same number.
        if key not in newest or name in newest[key].cells:
            newest[key] = _launch(header, row)
            launches.append(newest[key])
        newest[key].cells[name] = CsvValue(cells["Metric Value"], cells["Metric Unit"], row.line)
    if row is not None and not launches:
        raise GpuperfError(
            "the CSV text has labels of the details page in the place of metrics",
            expected="the raw page, or a row for each metric of `ncu --csv --metrics`",
            next_step="print it again from the report: `ncu --import REPORT --page raw --csv`, or profile "
            "again with `ncu --csv --page raw`",
        )
    return launches


def _name(cells: Mapping[str, str]) -> str:
    """Return the metric of a row; empty for a label of the details page, and for a rule."""
    metric = cells["Metric Name"]
    if found := _RAW_NAME.search(metric):
        return found[1]
    return metric if cells.get("Section Name") == _REQUESTED else ""


def _launch(header: Sequence[str], row: _CsvRow) -> Launch:
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
        demangled=_CUT.sub(lambda found: f"<{found[0]}", cells["Kernel Name"]),
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
