"""Read the output of `ncu --csv`, if there is no report.

Both layouts are supported: wide (`--page raw`: a row of names, a row of units, a row for each kernel) and
long (any other page, or `--metrics`: a row for each metric). ncu rounds CSV values, so a report is better.
Other lines may stand before the header. After it every line is a row, and any other line is an error, because
a truncated file would otherwise look like a smaller run.
"""

from __future__ import annotations

import csv
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.ncu.details_page import RAW_NAMES
from pytest_gpuperf.measure.ncu.raw_kernel import RawKernel
from pytest_gpuperf.measure.ncu.rules import rule_from_csv
from pytest_gpuperf.metrics.ncu_units import to_base

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_gpuperf.measure.ncu.rules import Rule
    from pytest_gpuperf.records import MetricValue

_NUMBER = re.compile(r"[-+]?(\d{1,3}(,\d{3})+|\d+)(\.\d+)?([eE][-+]?\d+)?")
_NO_VALUE = re.compile(r"(\(!\) ?)?(|no data|n/a|[-+]?nan|[-+]?inf)", re.IGNORECASE)
_EXTENT = re.compile(r"\((\d{1,10}), (\d{1,10}), (\d{1,10})\)")
_QUOTED = re.compile(r'"([^"]*)"')
_RANGE_COLUMNS = re.compile(r".*:(Push/Pop|Start/Stop)_Range:")


@dataclass(frozen=True)
class _Row:
    line: int
    fields: list[str]


class NoHeaderError(GpuperfError):
    """The text is not ncu CSV."""


def read_csv(text: str) -> list[RawKernel]:
    """Read all kernels of `ncu --csv` output, in their order.

    Values are in ncu's base units (`ns`, `byte`), as in a report, but rounded as printed.
    Numbers must have `,` between thousands and `.` before decimals: run ncu with `LC_ALL=C`.

    Args:
        text: The output, with or without `==PROF==` lines.

    Raises:
        NoHeaderError: The text lacks the header of ncu CSV.
        GpuperfError: A line after the header is not a whole row.
    """
    rows = _rows(text)
    header = next(rows).fields
    if "Metric Name" not in header:
        return _read_wide(header, rows)
    if "Metric Value" not in header or "Metric Unit" not in header:
        raise GpuperfError(
            "the CSV text has metric names but no column `Metric Value`",
            expected="a row for each metric of each launch, as `ncu --csv` prints without --print-summary",
            next_step="print it again from the report: `ncu --import REPORT --csv --page raw`",
        )
    return _read_long(header, rows)


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
            next_step="print the report with `ncu --import REPORT --csv --page raw`",
        )
    kept = kept[start:]
    reader = csv.reader((lines[i] + "\n" for i in kept), strict=True)
    header: list[str] = []
    try:
        for fields in reader:
            if fields:
                row = _Row(kept[reader.line_num - 1] + 1, fields)
                if fields == header:
                    raise _broken(row.line, "the header is there again, from another output")
                header = header or fields
                yield row
    except csv.Error as error:
        raise _broken(kept[reader.line_num - 1] + 1, str(error)) from error


def _is_header(line: str) -> bool:
    try:
        return "Kernel Name" in line and {"ID", "Kernel Name"} <= set(*csv.reader([line + "\n"], strict=True))
    except csv.Error:
        return False


def _broken(line: int, why: str) -> GpuperfError:
    return GpuperfError(
        f"line {line} of the CSV text is not a whole row of ncu CSV: {why}",
        expected="a complete file, written with LC_ALL=C",
        next_step="print it again from the report: `ncu --import REPORT --csv --page raw`",
    )


def _read_wide(header: list[str], rows: Iterator[_Row]) -> list[RawKernel]:
    columns = {name: i for i, name in enumerate(header) if "__" in name}
    units: list[str] | None = None
    kernels: list[RawKernel] = []
    for row in rows:
        if len(row.fields) != len(header):
            raise _broken(row.line, f"{len(row.fields)} fields, the header has {len(header)}")
        if units is None:
            if row.fields[header.index("ID")]:
                raise _broken(row.line, "it has an ID, but the units come first")
            units = row.fields
            continue
        kernel = _kernel(header, row)
        for name, i in columns.items():
            _store(kernel, name, row.fields[i], units[i], row.line)
        kernels.append(kernel)
    return kernels


def _read_long(header: list[str], rows: Iterator[_Row]) -> list[RawKernel]:
    name_at, unit_at, value_at = (header.index(f"Metric {what}") for what in ("Name", "Unit", "Value"))
    least = max(name_at, unit_at, value_at) + 1
    kernels: dict[str, RawKernel] = {}
    rules: dict[str, list[Rule]] = {}
    for row in rows:
        fields = row.fields
        # Rows of metrics are shorter than a header with columns for rules.
        if not least <= len(fields) <= len(header):
            raise _broken(row.line, f"{len(fields)} fields instead of {least} to {len(header)}")
        identifier = fields[header.index("ID")]
        if identifier not in kernels:
            kernels[identifier] = _kernel(header, row)
        rule = rule_from_csv(dict(zip(header, fields, strict=False)))
        if rule is not None:
            rules.setdefault(identifier, []).append(rule)
            continue
        label = fields[name_at]
        section = fields[header.index("Section Name")] if "Section Name" in header else ""
        name = label if "__" in label else RAW_NAMES.get((section, label))
        if name is not None:
            _store(kernels[identifier], name, fields[value_at], fields[unit_at], row.line)
    for kernel in kernels.values():
        _add_shared_memory(kernel)
    return [
        msgspec.structs.replace(kernel, rules=tuple(rules.get(identifier, ())))
        for identifier, kernel in kernels.items()
    ]


def _add_shared_memory(kernel: RawKernel) -> None:
    """Add the shared memory of a block, of which the details page has only the parts."""
    whole = "launch__shared_mem_per_block"
    parts = [kernel.metrics.get(f"{whole}_{part}") for part in ("static", "dynamic", "driver")]
    numbers = [part for part in parts if isinstance(part, float)]
    if whole not in kernel.metrics and len(numbers) == len(parts):
        kernel.metrics[whole] = sum(numbers)
        kernel.units[whole] = kernel.units[f"{whole}_driver"]


def _kernel(header: list[str], row: _Row) -> RawKernel:
    cells = dict(zip(header, row.fields, strict=False))
    demangled = cells["Kernel Name"]
    # A range is "domain:name:" and six fields of its payload, colour and message; a start/end range begins
    # with its number.
    ranges = [
        quoted.split(":", columns[1].startswith("Start") + 1)[-1].rsplit(":", 6)[0]
        for column, cell in cells.items()
        if (columns := _RANGE_COLUMNS.match(column))
        for quoted in _QUOTED.findall(cell)
    ]
    return RawKernel(
        name=function_name(demangled),
        demangled=demangled,
        grid=_extent(cells.get("Grid Size"), row.line),
        block=_extent(cells.get("Block Size"), row.line),
        ranges=tuple(ranges),
    )


def _extent(cell: str | None, line: int) -> tuple[int, int, int]:
    if cell is None:
        return 0, 0, 0
    match = _EXTENT.fullmatch(cell)
    if match is None:
        raise _broken(line, f"{cell!r} is not an extent like (128, 1, 1)")
    x, y, z = (int(group) for group in match.groups())
    return x, y, z


def _store(kernel: RawKernel, name: str, text: str, unit: str, line: int) -> None:
    value: MetricValue
    if _NO_VALUE.fullmatch(text):
        return
    if _NUMBER.fullmatch(text):
        value, unit = to_base(float(text.replace(",", "")), unit)
        if not math.isfinite(value):
            return
    elif text[0].isdigit() and not text.strip("0123456789.,"):
        raise _broken(line, f"{text!r} is not a number with , between thousands and . before decimals")
    else:
        value = text
    kernel.metrics[name] = value
    kernel.units[name] = unit


def function_name(demangled: str) -> str:
    """Extract the function name from a demangled name, as close to that of ncu as the text allows.

    `void at::vectorized_elementwise_kernel<4, float>(int, T2)` gives `vectorized_elementwise_kernel`.
    """
    depth = 0
    kept: list[str] = []
    for character in demangled.replace("(anonymous namespace)", ""):
        if character == "(" and not depth:
            break
        if character in "<(":
            depth += 1
        elif character in ">)":
            depth -= 1
        elif not depth:
            kept.append(character)
    return "".join(kept).strip().rpartition("::")[2].rpartition(" ")[2] or demangled
