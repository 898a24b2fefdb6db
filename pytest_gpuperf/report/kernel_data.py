"""Launches of a file of ncu's, and two files side by side, as JSON and CSV for other programs."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any

import msgspec

from pytest_gpuperf.measure.ncu.comparison import changes, pair_up, visibly_worse
from pytest_gpuperf.measure.ncu.ncu_rules import by_speedup
from pytest_gpuperf.metrics.combine import combine_both

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pytest_gpuperf.measure.ncu.report_file import ReportKernel
    from pytest_gpuperf.records import MetricValue
    from pytest_gpuperf.records.change import Change

EFFECTS = {True: "worse", False: "better", None: ""}


def as_json(kernels: Sequence[ReportKernel], metrics: Sequence[str]) -> str:
    """A list of launches: names, launch facts, NVTX ranges, `metrics` with value and unit, `rules`."""
    return json_text([_launch(kernel, metrics) for kernel in kernels])


def as_csv(kernels: Sequence[ReportKernel], metrics: Sequence[str]) -> str:
    """A row for each launch, a column for each metric."""
    names = [name for name in metrics if any(name in kernel.metrics for kernel in kernels)]
    rows = [
        (
            kernel.launch,
            kernel.name,
            kernel.demangled or kernel.name,
            *(_extent(extent) for extent in (kernel.grid, kernel.block)),
            *(kernel.metrics.get(name, "") for name in names),
        )
        for kernel in kernels
    ]
    return csv_text(("launch", "name", "demangled", "grid", "block", *names), rows)


def comparison_as_json(
    old: Sequence[ReportKernel], new: Sequence[ReportKernel], metrics: Sequence[str]
) -> str:
    """The pairs with `old`, `new` and change of each metric, all launches as one, and what has no partner."""
    found = pair_up(old, new)
    units = _units(old, new, metrics)
    return json_text(
        {
            "kernels": [
                {
                    "name": after.name,
                    "old_launch": before.launch,
                    "new_launch": after.launch,
                    "metrics": _changes(before.metrics, after.metrics, metrics, units),
                }
                for before, after in found.pairs
            ],
            "all": {
                "old_launches": len(old),
                "new_launches": len(new),
                "metrics": _changes(*combine_both(old, new), metrics, units),
            },
            "only_old": [_launch(kernel, metrics) for kernel in found.only_old],
            "only_new": [_launch(kernel, metrics) for kernel in found.only_new],
        }
    )


def comparison_as_csv(
    old: Sequence[ReportKernel], new: Sequence[ReportKernel], metrics: Sequence[str]
) -> str:
    """A row for each metric of each pair, and for each of a launch without partner, one side of it empty."""
    found = pair_up(old, new)
    units = _units(old, new, metrics)
    rows: list[tuple[object, ...]] = []
    for before, after in found.pairs:
        found_changes = changes(before.metrics, after.metrics, metrics)
        rows += [(after.name, before.launch, after.launch, *_row(change, units)) for change in found_changes]
    for kernel in found.only_old:
        rows += [(kernel.name, kernel.launch, "", *row) for row in _one_side(kernel, metrics, units, 0)]
    for kernel in found.only_new:
        rows += [(kernel.name, "", kernel.launch, *row) for row in _one_side(kernel, metrics, units, 1)]
    for change in changes(*combine_both(old, new), metrics):
        rows.append(("all", "", "", *_row(change, units)))
    columns = ("name", "old_launch", "new_launch", "metric", "unit", "old", "new", "change_pct", "effect")
    return csv_text(columns, rows)


def _launch(kernel: ReportKernel, metrics: Iterable[str]) -> dict[str, Any]:
    return {
        "launch": kernel.launch,
        "name": kernel.name,
        "demangled": kernel.demangled or kernel.name,
        "grid": kernel.grid if any(kernel.grid) else None,
        "block": kernel.block if any(kernel.block) else None,
        "ranges": kernel.ranges,
        "metrics": {
            name: {"value": kernel.metrics[name], "unit": kernel.unit(name)}
            for name in metrics
            if name in kernel.metrics
        },
        "rules": by_speedup(kernel.rules),
    }


def _units(
    old: Sequence[ReportKernel], new: Sequence[ReportKernel], metrics: Sequence[str]
) -> dict[str, str]:
    return {name: unit for kernel in (*old, *new) for name in metrics if (unit := kernel.unit(name))}


def _changes(
    old: Mapping[str, MetricValue],
    new: Mapping[str, MetricValue],
    metrics: Sequence[str],
    units: Mapping[str, str],
) -> dict[str, Any]:
    return {
        change.metric: {
            "old": change.baseline,
            "new": change.actual,
            "unit": units.get(change.metric, ""),
            "change_pct": change.change_pct,
            "effect": EFFECTS[visibly_worse(change)],
        }
        for change in changes(old, new, metrics)
    }


def _row(change: Change, units: Mapping[str, str]) -> tuple[object, ...]:
    pct = "" if change.change_pct is None else change.change_pct
    unit = units.get(change.metric, "")
    return change.metric, unit, change.baseline, change.actual, pct, EFFECTS[visibly_worse(change)]


def _one_side(
    kernel: ReportKernel, metrics: Sequence[str], units: Mapping[str, str], side: int
) -> Iterable[tuple[object, ...]]:
    for name in metrics:
        if name in kernel.metrics:
            values = ("", kernel.metrics[name]) if side else (kernel.metrics[name], "")
            yield name, units.get(name, ""), *values, "", ""


def _extent(extent: tuple[int, int, int]) -> str:
    return "x".join(map(str, extent)) if any(extent) else ""


def json_text(content: object) -> str:
    """Records, mappings and sequences as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(content), indent=1).decode() + "\n"


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A line of titles and a line for each row."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return stream.getvalue()
