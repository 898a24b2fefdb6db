"""The savings and costs of a change by size as a report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_gpuperf.report.show import show_saving, show_time, show_times
from pytest_gpuperf.report.table import Column, Report, Table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_gpuperf.compare.launch_cost import Found, Series


def break_even_report(found: Found, source: Sequence[str]) -> Report:
    """Return one row for each size, and the size where the change breaks even.

    Args:
        found: The savings and costs of the change.
        source: Lines above the table: where the values are from.
    """
    rows = [row for series in found.series for row in _rows(series)]
    sizes = Column(found.size_title, [f"{row['size']:g}" for row in rows])
    names = [row["series"] for row in rows]
    columns = [
        Column("", names, "name", code=True) if any(names) else Column(sizes.title, sizes.cells, "name"),
        *([sizes] if any(names) else []),
        Column("launches", [f"{row['launches_without']:g} -> {row['launches_with']:g}" for row in rows]),
        Column("GPU time", [show_times(row["gpu_us_without"], row["gpu_us_with"]) for row in rows]),
        Column("saved", [show_saving(row["saved_us"]) for row in rows]),
        Column("cost", [show_saving(row["cost_us"]) for row in rows]),
        Column("net", [show_saving(row["net_us"]) for row in rows]),
        Column("time", [_if_known(show_times, row["time_us_without"], row["time_us_with"]) for row in rows]),
        Column("measured", [_if_known(show_saving, row["measured_us"]) for row in rows]),
    ]
    return Report(
        [Table(columns, source, list(_conclusions(found)))],
        records=rows,
        data={
            "size": found.size_title,
            "launch_us": found.cost.us,
            "launch": found.cost.kind,
            "source": found.cost.source,
            "left_out": found.left_out,
            "series": [
                {
                    "name": series.name,
                    "pays_above": series.calculated.size,
                    "measured_pays_above": series.measured.size if series.measured else None,
                    "sizes": list(_rows(series)),
                }
                for series in found.series
            ],
        },
    )


def _if_known(show: Any, *values: float | None) -> str:
    return "" if None in values else str(show(*values))


def _rows(series: Series) -> Iterator[dict[str, Any]]:
    result = series.calculated
    for index, pair in enumerate(series.pairs):
        timings = [entry.measurement.timing for entry in (pair.without, pair.with_)]
        times = [timing.time_us if timing and series.mode else None for timing in timings]
        affordable = result.affordable_launches[index]
        yield {
            "series": series.name,
            "size": pair.size,
            "launches_without": pair.launches[0],
            "launches_with": pair.launches[1],
            "gpu_us_without": pair.gpu_us[0],
            "gpu_us_with": pair.gpu_us[1],
            "saved_us": result.saved_us[index],
            "cost_us": result.cost_us[index],
            "net_us": result.net_us[index],
            # JSON has no infinity.
            "affordable_launches": affordable if affordable < float("inf") else None,
            "mode": series.mode,
            "time_us_without": times[0],
            "time_us_with": times[1],
            "measured_us": pair.measured_us if series.mode else None,
        }


def _conclusions(found: Found) -> Iterator[str]:
    for series in found.series:
        where = f"{series.name}: " if series.name else ""
        yield f"{where}calculated: {series.calculated}"
        if series.measured is not None:
            yield f"{where}measured ({series.mode}): {series.measured}"
    whose = {"host": "by the host: ", "graph": "in a graph: ", "given": ""}[found.cost.kind]
    yield f"cost of a launch: {show_time(found.cost.us)}, {whose}{found.cost.source}"
    yield from (f"left out: {why}" for why in found.left_out)
