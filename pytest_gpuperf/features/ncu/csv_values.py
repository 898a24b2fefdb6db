"""Launches as ncu prints them in CSV, and their numbers."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.features.ncu.file_kernel import FileKernel
from pytest_gpuperf.measure.ncu.kernel_name import function_name
from pytest_gpuperf.metrics.ncu_units import to_base

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Extent = tuple[int, int, int]

NO_VALUE = re.compile(r"(\(!\) ?)?(|no data|n/a|[-+]?nan|[-+]?inf)", re.IGNORECASE)
_NOT_FINITE = re.compile(r"^(?:\(!\) ?)?[-+]?(?:nan|inf)$", re.IGNORECASE)
_INSTANCES = re.compile(r"((?:\(!\) ?)?\S+) \((?:(?:[^;()]+: )?[-+\d.,e]+(?:; |(?=\))))+\)")
"""A value and those of its instances (`--print-metric-instances`)."""
_LISTS = frozenset({"launch__tpc_enabled"})
"""Metrics with several numbers, which are words to everybody else."""
_ATTRIBUTE = "device__attribute_"
_NUMBER = re.compile(r"[-+]?([1-9]\d{0,2}(,\d{3})+|\d+)(\.\d+)?([eE][-+]?\d+)?")
_THOUSANDS_BY_DOT = re.compile(r"[-+]?[1-9]\d{0,2}\.\d{3}")
"""A number of a European locale: ncu prints two decimals, or six on the raw page."""
_DIGITS = re.compile(r"[-+]?\d[\d., \u00a0\u2009\u202f'\u2019]*")


class CsvValue(NamedTuple):
    """One printed value."""

    text: str
    unit: str
    line: int
    """Number of its line, from 1."""


@dataclass
class Launch:
    """One launch, as text."""

    demangled: str
    grid: Extent = (0, 0, 0)
    block: Extent = (0, 0, 0)
    compute_capability: str = ""
    device: int | None = None
    ranges: tuple[str, ...] = ()
    cells: dict[str, CsvValue] = field(default_factory=dict)
    """By raw ncu name."""


def read_launches(launches: Sequence[Launch], notes: list[str]) -> list[FileKernel]:
    """Read the numbers of all launches of a file.

    Args:
        launches: The launches.
        notes: Takes a sentence if no metric has a value.

    Raises:
        GpuperfError: A number is not one of the locale C.
    """
    kernels = [_kernel(launch) for launch in launches]
    cells = any(name not in _LISTS for launch in launches for name in launch.cells)
    if cells and not any(kernel.metrics or kernel.not_finite for kernel in kernels):
        notes.append("no metric has a value: ncu does not have them on this GPU")
    return kernels


def _kernel(launch: Launch) -> FileKernel:
    attributes = {
        name.removeprefix(_ATTRIBUTE): cell.text
        for name, cell in launch.cells.items()
        if name.startswith(_ATTRIBUTE)
    }
    kernel = FileKernel(
        name=function_name(launch.demangled),
        demangled=launch.demangled,
        grid=launch.grid,
        block=launch.block,
        ranges=launch.ranges,
        gpu=attributes.get("display_name", ""),
        compute_capability=launch.compute_capability or _capability(attributes),
        device=launch.device,
        not_finite=sum(_NOT_FINITE.search(cell.text) is not None for cell in launch.cells.values()),
    )
    for name, cell in launch.cells.items():
        if instances := _INSTANCES.fullmatch(cell.text):
            cell = cell._replace(text=instances[1])
        if NO_VALUE.fullmatch(cell.text):
            continue
        value, unit = _value(name, cell)
        if isinstance(value, float) and not math.isfinite(value):
            continue
        kernel.metrics[name] = value
        kernel.units[name] = unit
    return kernel


def _capability(attributes: Mapping[str, str]) -> str:
    parts = [attributes.get(f"compute_capability_{part}", "") for part in ("major", "minor")]
    return ".".join(parts) if all(parts) else ""


def _value(name: str, cell: CsvValue) -> tuple[float | str, str]:
    if name in _LISTS or not _DIGITS.match(cell.text):
        return cell.text, cell.unit
    if _NUMBER.fullmatch(cell.text) and not _THOUSANDS_BY_DOT.fullmatch(cell.text):
        return to_base(float(cell.text.replace(",", "")), cell.unit)
    if _DIGITS.fullmatch(cell.text):
        raise broken(
            cell.line, f"{cell.text!r} is not a number with , between thousands and . before decimals"
        )
    return cell.text, cell.unit


def broken(line: int, why: str) -> GpuperfError:
    """Return the error for a line that ncu does not print."""
    return GpuperfError(
        f"line {line} of the CSV text is not a whole row of ncu CSV: {why}",
        expected="a complete file, written with LC_ALL=C",
        next_step="print it again from the report: `ncu --import REPORT --page raw --csv`",
    )
