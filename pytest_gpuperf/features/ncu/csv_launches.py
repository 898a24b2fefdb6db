"""Launches as ncu prints them in CSV, and their numbers."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.metrics.ncu_units import to_base

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_gpuperf.features.ncu.file_kernel import FileKernel
    from pytest_gpuperf.features.ncu.rule_results import RuleResult

NO_VALUE = re.compile(r"(\(!\) ?)?(|no data|n/a|[-+]?nan|[-+]?inf)", re.IGNORECASE)
_NOT_FINITE = re.compile(r"^(?:\(!\) ?)?[-+]?(?:nan|inf)$", re.IGNORECASE)
_INSTANCES = re.compile(r"((?:\(!\) ?)?\S+) \((?:(?:[^;()]+: )?[-+\d.,e]+(?:; |(?=\))))+\)")
"""A value and those of its instances (`--print-metric-instances`)."""
_LISTS = frozenset({"launch__tpc_enabled"})
"""Metrics with several numbers, which are words to everybody else."""
_WHOLE = "launch__shared_mem_per_block"
_ATTRIBUTE = "device__attribute_"
_NUMBER = re.compile(r"[-+]?([1-9]\d{0,2}(,\d{3})+|\d+)(\.\d+)?([eE][-+]?\d+)?")
_THOUSANDS_BY_DOT = re.compile(r"[-+]?[1-9]\d{0,2}\.\d{3}")
"""A number of a European locale: ncu prints two decimals, or six on the raw page."""
_DIGITS = re.compile(r"[-+]?\d[\d., \u00a0\u2009\u202f'\u2019]*")


class CsvValue(NamedTuple):
    """One printed value."""

    name: str
    """Raw ncu name."""
    text: str
    unit: str
    line: int
    """Number of its line, from 1."""


@dataclass
class Launch:
    """One launch, as text."""

    kernel: FileKernel
    """Without what is in its cells."""
    cells: list[CsvValue] = field(default_factory=list)
    rules: list[RuleResult] = field(default_factory=list)


def read_launches(launches: Sequence[Launch], notes: list[str]) -> list[FileKernel]:
    """Read the numbers of all launches of a file.

    Args:
        launches: The launches.
        notes: Takes a sentence if no metric has a value.

    Raises:
        GpuperfError: A number is not one of the locale C.
    """
    kernels = [_kernel(launch) for launch in launches]
    cells = any(cell.name not in _LISTS for launch in launches for cell in launch.cells)
    if cells and not any(kernel.metrics or kernel.not_finite for kernel in kernels):
        notes.append("no metric has a value: ncu does not have them on this GPU")
    return kernels


def _kernel(launch: Launch) -> FileKernel:
    attributes = {
        cell.name.removeprefix(_ATTRIBUTE): cell.text
        for cell in launch.cells
        if cell.name.startswith(_ATTRIBUTE)
    }
    kernel = replace(
        launch.kernel,
        rules=tuple(launch.rules),
        gpu=attributes.get("display_name", ""),
        compute_capability=launch.kernel.compute_capability or _capability(attributes),
        not_finite=sum(_NOT_FINITE.search(cell.text) is not None for cell in launch.cells),
    )
    for cell in launch.cells:
        if instances := _INSTANCES.fullmatch(cell.text):
            cell = cell._replace(text=instances[1])
        if NO_VALUE.fullmatch(cell.text) or cell.name in kernel.metrics:
            continue
        value, unit = _value(cell)
        if isinstance(value, float) and not math.isfinite(value):
            continue
        kernel.metrics[cell.name] = value
        kernel.units[cell.name] = unit
    # The details page has only the parts of a block's shared memory.
    parts = [kernel.metrics.get(f"{_WHOLE}_{part}") for part in ("static", "dynamic", "driver")]
    numbers = [part for part in parts if isinstance(part, float)]
    if _WHOLE not in kernel.metrics and len(numbers) == len(parts):
        kernel.metrics[_WHOLE] = sum(numbers)
        kernel.units[_WHOLE] = kernel.units[f"{_WHOLE}_driver"]
    return kernel


def _capability(attributes: Mapping[str, str]) -> str:
    parts = [attributes.get(f"compute_capability_{part}", "") for part in ("major", "minor")]
    return ".".join(parts) if all(parts) else ""


def _value(cell: CsvValue) -> tuple[float | str, str]:
    if cell.name in _LISTS or not _DIGITS.match(cell.text):
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
