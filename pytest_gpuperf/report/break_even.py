"""What a change saves and costs by size, as a terminal shows it, as Markdown, CSV and JSON. Loads rich."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_gpuperf.records.change import printable
from pytest_gpuperf.report.kernel_data import csv_text, json_text
from pytest_gpuperf.report.layout import Column, lay_out, wrapped
from pytest_gpuperf.report.markup import as_code, document, literal, table
from pytest_gpuperf.report.rows import show_time, three_digits

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_gpuperf.compare.launch_cost import Found, Series

_FIELDS = (
    "series",
    "size",
    "launches_without",
    "launches_with",
    "gpu_us_without",
    "gpu_us_with",
    "saved_us",
    "cost_us",
    "net_us",
    "affordable_launches",
    "mode",
    "time_us_without",
    "time_us_with",
    "measured_us",
)
_TITLES = ("launches", "GPU time", "saved", "cost", "net", "time", "measured")


def as_text(found: Found, source: Sequence[str], *, width: int, colour: bool) -> str:
    """A line for each size, and below them from which of them on the change pays.

    Args:
        found: What the change saves and costs.
        source: Where the values are from, above the table.
        width: Columns of the terminal.
        colour: Whether ANSI colours may be used.
    """
    rows = [(series, cells) for series in found.series for cells in _cells(series)]
    columns = [
        Column(printable(title), [cells[index] for _, cells in rows])
        for index, title in enumerate((found.size_title, *_TITLES))
    ]
    if any(series.name for series in found.series):
        columns.insert(0, Column("", [printable(series.name) for series, _ in rows]))
    names, *numbers = columns
    titles, entries = lay_out(replace(names, justify="left"), numbers, [], width=width, colour=colour)
    lines = wrapped([printable(line) for line in source], width)
    lines += ["", *titles, *(line for entry in entries for line in entry), ""]
    return "\n".join([*lines, *wrapped([printable(line) for line in _conclusions(found)], width)]) + "\n"


def as_markdown(found: Found, source: Sequence[str]) -> str:
    """The table, and from which size on the change pays as a list.

    Args:
        found: What the change saves and costs.
        source: Where the values are from, above the table.
    """
    named = any(series.name for series in found.series)
    titles = [*([""] if named else []), literal(found.size_title), *_TITLES]
    rows = [
        [*([as_code(printable(series.name))] if named else []), *map(literal, cells)]
        for series in found.series
        for cells in _cells(series)
    ]
    aligned = "l" * named + "r" * (len(titles) - named)
    return document(source, table(titles, aligned, rows), list(_conclusions(found)))


def as_csv(found: Found) -> str:
    """A row for each size."""
    rows = [[row[field] for field in _FIELDS] for series in found.series for row in _rows(series)]
    return csv_text(_FIELDS, [["" if value is None else value for value in row] for row in rows])


def as_json(found: Found) -> str:
    """The cost of a launch, and of each series its sizes and from which of them on the change pays."""
    return json_text(
        {
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
        }
    )


def _cells(series: Series) -> Iterator[tuple[str, ...]]:
    for row in _rows(series):
        times = (row["time_us_without"], row["time_us_with"])
        yield (
            f"{row['size']:g}",
            f"{row['launches_without']:g} -> {row['launches_with']:g}",
            _pair(row["gpu_us_without"], row["gpu_us_with"]),
            _signed(row["saved_us"]),
            _signed(row["cost_us"]),
            _signed(row["net_us"]),
            "" if None in times else _pair(*times),
            "" if row["measured_us"] is None else _signed(row["measured_us"]),
        )


def _rows(series: Series) -> Iterator[dict[str, Any]]:
    result = series.calculated
    for index, pair in enumerate(series.pairs):
        timings = [entry.measurement.timing for entry in (pair.without, pair.with_)]
        times = [timing.time_us if timing and series.mode else None for timing in timings]
        affordable = result.affordable_launches[index]
        values = (
            series.name,
            pair.size,
            *pair.launches,
            *pair.gpu_us,
            result.saved_us[index],
            result.cost_us[index],
            result.net_us[index],
            # JSON has no infinity.
            affordable if affordable < float("inf") else None,
            series.mode,
            *times,
            pair.measured_us if series.mode else None,
        )
        yield dict(zip(_FIELDS, values, strict=True))


def _conclusions(found: Found) -> Iterator[str]:
    for series in found.series:
        where = f"{series.name}: " if series.name else ""
        yield f"{where}calculated: {series.calculated}"
        if series.measured is not None:
            yield f"{where}measured ({series.mode}): {series.measured}"
    whose = {"host": "by the host: ", "graph": "in a graph: ", "given": ""}[found.cost.kind]
    yield f"cost of a launch: {show_time(found.cost.us)}, {whose}{found.cost.source}"
    yield from (f"left out: {why}" for why in found.left_out)


def _pair(without_us: float, with_us: float) -> str:
    """`0.70 -> 1.52 ms`: both in the unit of the larger one."""
    _, unit = show_time(max(without_us, with_us)).split()
    scale = {"µs": 1.0, "ms": 1e3, "s": 1e6}[unit]
    return f"{three_digits(without_us / scale)} -> {three_digits(with_us / scale)} {unit}"


def _signed(time_us: float) -> str:
    return ("-" if time_us < 0 else "+") + show_time(abs(time_us)) if time_us else show_time(0.0)
