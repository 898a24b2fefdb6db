"""Read the output of `ncu --csv`, if there is no report.

Two layouts are supported: wide (`--page raw`: a row of names, a row of units, a row for each kernel) and long
(any other page, or `--metrics`: a row for each metric). ncu rounds CSV values, so a report is better.
Several outputs may follow each other in a file, or be those of the processes of a launcher, which writes a
prefix before each line (`[1,0]<stdout>:`). Other lines may stand before the header. After it every line is a
row, and any other line is an error, because a truncated file would otherwise look like a smaller run.
"""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.features.ncu.csv_launches import CsvValue, Launch, broken, read_launches
from pytest_gpuperf.features.ncu.details_labels import raw_name, rule_of
from pytest_gpuperf.features.ncu.file_kernel import FileKernel
from pytest_gpuperf.measure.counters.counter_source import function_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

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
_PREFIXED_HEADER = re.compile(r'(.+?)"?ID"?,"?(?:Process ID|Kernel Name)\b')
_MARK = re.compile(r"\x1b\[[\d;]*m|\ufeff")
"""Colour, or a byte-order mark, of which files that follow each other have several."""
_CLOCK = re.compile(r"(?:\d{4}-\d\d-\d\d[T ])?\d\d:\d\d:\d\d[\d.,]*(?:Z|[+-]\d\d:?\d\d)?")
"""Time of a line: GitHub Actions writes `2026-01-02T03:04:05.1234567Z `."""

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
    outputs = [output for process in _processes(lines) for output in _outputs(process)]
    if not outputs:
        raise NoHeaderError(
            "the text has no header of ncu CSV",
            expected='a line with the columns "ID" and "Kernel Name"',
            next_step="print the report with `ncu --import REPORT --page raw --csv`",
        )
    notes = [] if notes is None else notes
    return read_launches([launch for output in outputs for launch in _launches(output, notes)], notes)


def _processes(lines: list[_Line]) -> Iterable[list[_Line]]:
    """Sort the lines by the processes that a launcher names in its prefix, and take the prefix away."""
    header = next(filter(None, (_PREFIXED_HEADER.match(line) for _, line in lines)), None)
    if header is None or any(_is_header(line) for _, line in lines):
        return [lines]
    # Other processes have other numbers in it, and other spaces before them.
    shape = re.sub(r"\d+", r"\\d+", re.sub(r"(?:\\ )+", r"\\s*", re.escape(header[1])))
    found: dict[str, list[_Line]] = defaultdict(list)
    for number, line in lines:
        if prefix := re.match(shape, line):
            found[_CLOCK.sub("", prefix[0])].append((number, line[prefix.end() :]))
    return found.values()


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


def _launches(output: list[_Line], notes: list[str]) -> list[Launch]:
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
    return _read_long(header, rows, notes)


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
        launch.cells += [CsvValue(name, row.fields[i], units[i], row.line) for name, i in columns.items()]
        launches.append(launch)
    return launches


@dataclass
class _Reading:
    """A launch of which rows are read."""

    launch: Launch
    labels: dict[tuple[str, ...], str] = field(default_factory=dict)
    """Values by section, item and label, the first label first."""


def _read_long(header: list[str], rows: Iterator[_CsvRow], notes: list[str]) -> list[Launch]:
    # Rows of metrics lack the columns of rules at the end.
    least = max(map(header.index, _LONG)) + 1
    launches: list[Launch] = []
    readings: dict[tuple[str, ...], _Reading] = {}
    before: _Reading | None = None
    twice: dict[str, None] = {}
    for row in rows:
        if not least <= len(row.fields) <= len(header):
            raise broken(row.line, f"{len(row.fields)} fields instead of {least} to {len(header)}")
        cells = dict(zip(header, row.fields, strict=False))
        key = tuple(cells.get(name, "") for name in _FACTS)
        place = [cells.get(name, "") for name in ("Section Name", "Body Item Label")]
        label = (*place, cells["Metric Name"])
        rule = rule_of(cells)
        reading = readings.get(key)
        # Numbers of launches start again in a process that starts again, also in one with the same number.
        again = reading and rule is None and label in reading.labels
        if reading is None or (again and (reading is not before or label == next(iter(reading.labels)))):
            reading = readings[key] = _Reading(_launch(header, row))
            launches.append(reading.launch)
        before = reading
        if rule is not None:
            reading.launch.rules.append(rule)
            continue
        name = raw_name(*label, cells["Metric Unit"])
        value = cells["Metric Value"]
        if reading.labels.setdefault(label, value) != value:
            # Tables without their titles: any of the values may be meant.
            twice[name] = None
            value = ""
        reading.launch.cells.append(CsvValue(name, value, cells["Metric Unit"], row.line))
    if twice:
        notes.append(f"left out, for a launch has several values of it: {', '.join(twice)}")
        for launch in launches:
            launch.cells = [cell for cell in launch.cells if cell.name not in twice]
    return launches


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
    demangled = _CUT.sub(lambda found: f"<{found[0]}", cells["Kernel Name"])
    kernel = FileKernel(
        name=function_name(demangled),
        demangled=demangled,
        grid=_extent(cells.get("Grid Size"), row.line),
        block=_extent(cells.get("Block Size"), row.line),
        compute_capability=cells.get("CC", ""),
        device=int(device) if device.isdecimal() else None,
        ranges=tuple(ranges),
    )
    return Launch(kernel)


def _extent(cell: str | None, line: int) -> tuple[int, int, int]:
    if cell is None:
        return 0, 0, 0
    match = _EXTENT.fullmatch(cell)
    if match is None:
        raise broken(line, f"{cell!r} is not an extent like (128, 1, 1)")
    x, y, z = (int(group) for group in match.groups())
    return x, y, z
