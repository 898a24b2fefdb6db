"""Launches of a file of ncu's as a terminal shows them. Loads rich."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gpuperf.metrics.combine import combine, weights_used
from pytest_gpuperf.records.change import printable, show_value
from pytest_gpuperf.report.layout import GAP, Column, cut_middle, groups, lay_out, wrapped
from pytest_gpuperf.report.rows import show_occupancy, show_stall, show_time

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_gpuperf.measure.ncu.report_file import ReportKernel
    from pytest_gpuperf.records import MetricValue

NAME_COLUMNS = 44
"""Longer names are cut where that keeps a launch on one line."""


def overview_lines(kernels: Sequence[ReportKernel], *, width: int, colour: bool) -> list[str]:
    """A line for each launch, or two where the terminal is narrow, and one for all of them.

    Args:
        kernels: The launches.
        width: Columns of the terminal.
        colour: Whether ANSI colours may be used.
    """
    names = [launch_name(kernel) for kernel in kernels]
    rows = [kernel.metrics for kernel in kernels]
    if len(kernels) > 1:
        names.append(f"all {len(kernels)}")
        # Of the theoretical occupancy it has the least, which is no whole for the mean of the achieved one.
        row = combine(kernels)
        rows.append({name: row[name] for name in row if name != "theoretical_occupancy"})
    blank = [""] * (len(rows) - len(kernels))
    numbers = [
        Column("grid", [*(show_extent(kernel.grid) for kernel in kernels), *blank]),
        Column("block", [*(show_extent(kernel.block) for kernel in kernels), *blank]),
        Column("regs", [_whole(row, "registers_per_thread") for row in rows]),
        Column("duration", [show_duration(row) for row in rows]),
        Column("SOL sm/mem", [_pair(row, "sm_throughput", "memory_throughput") for row in rows]),
        Column("occupancy", [show_occupancy(row) for row in rows]),
        Column("top stall", [show_stall(row) for row in rows], "left"),
    ]
    cut = [cut_middle(name, NAME_COLUMNS) for name in names]
    titles, entries = lay_out(Column("kernel", cut, "left"), numbers, [], width=width, colour=colour)
    if any(len(entry) > 1 for entry in entries):
        titles, entries = lay_out(Column("kernel", names, "left"), numbers, [], width=width, colour=colour)
    lines = [*titles, *(line for entry in entries for line in entry)]
    stalls = [name for row in rows for name in row if name.startswith("stall.")]
    shown = ["sm_throughput", "memory_throughput", "achieved_occupancy", *dict.fromkeys(stalls)]
    return lines + _weight_lines(kernels, shown, width)


def metric_lines(
    kernels: Sequence[ReportKernel], metrics: Sequence[str], *, width: int, colour: bool
) -> list[str]:
    """Which launches there are, and their metrics: a column for each of them and one for all.

    Args:
        kernels: The launches.
        metrics: Short or raw names; those without any value are left out, and stalls are sorted by size.
        width: Columns of the terminal; where they do not suffice, there are several tables.
        colour: Whether ANSI colours may be used.
    """
    rows = [kernel.metrics for kernel in kernels]
    shown = _by_size([name for name in metrics if any(name in row for row in rows)], rows)
    if not shown:
        return [*_legend_lines(kernels, width, colour), "", "the file has none of these metrics"]
    units = {name: next(filter(None, (kernel.unit(name) for kernel in kernels)), "") for name in shown}

    def column(title: str, row: Mapping[str, MetricValue]) -> Column:
        return Column(title, [show_metric(row[name], units[name]) if name in row else "" for name in shown])

    columns = [column(f"#{kernel.launch}", kernel.metrics) for kernel in kernels]
    if len(kernels) > 1:
        columns.append(column(f"all {len(kernels)}", combine(kernels)))
    names = Column("metric", [printable(name) for name in shown], "left")
    unit = Column("unit", [printable(units[name]) for name in shown], "left")
    lines = _legend_lines(kernels, width, colour)
    for some in groups(columns, width - names.width - unit.width - GAP):
        titles, entries = lay_out(names, [unit, *some], [], width=width, colour=colour)
        lines += ["", *titles, *(line for entry in entries for line in entry)]
    return lines + _weight_lines(kernels, shown, width)


def launch_name(kernel: ReportKernel) -> str:
    """`#3 square_kernel`."""
    return printable(f"#{kernel.launch} {kernel.name}")


def show_extent(extent: tuple[int, int, int]) -> str:
    """`8192`, `2x66` or `2x2x64`; empty where ncu did not say."""
    x, y, z = extent
    if not x:
        return ""
    return f"{x}x{y}x{z}" if z > 1 else f"{x}x{y}" if y > 1 else f"{x}"


def show_duration(row: Mapping[str, MetricValue]) -> str:
    """The duration in the unit that suits it, empty where there is none."""
    value = row.get("duration_us")
    return "" if value is None or isinstance(value, str) else show_time(value)


def show_metric(value: MetricValue, unit: str) -> str:
    """A value with three digits, with one decimal where it is a percentage."""
    if unit == "%" and not isinstance(value, str):
        return f"{value:.1f}"
    return printable(show_value(value))


def _legend_lines(kernels: Sequence[ReportKernel], width: int, colour: bool) -> list[str]:
    grids = Column("grid", [show_extent(kernel.grid) for kernel in kernels])
    blocks = Column("block", [show_extent(kernel.block) for kernel in kernels])
    room = max(width - grids.width - blocks.width - 2 * GAP, NAME_COLUMNS)
    names = [cut_middle(launch_name(kernel), room) for kernel in kernels]
    titles, entries = lay_out(
        Column("kernel", names, "left"), [grids, blocks], [], width=width, colour=colour
    )
    return [*titles, *(line for entry in entries for line in entry)]


def _weight_lines(kernels: Sequence[ReportKernel], metrics: Sequence[str], width: int) -> list[str]:
    """How the means of the combined row were made; none where there is no such row, or no mean in it."""
    used = weights_used(kernels, metrics) if len(kernels) > 1 else {}
    families = {
        weight: dict.fromkeys("stalls" if name.startswith("stall.") else name for name in names)
        for weight, names in used.items()
    }
    said = "; ".join(f"{', '.join(names)} by {weight}" for weight, names in families.items())
    return ["", *wrapped([f"all {len(kernels)}, weighted means: {said}"], width)] if said else []


def _by_size(names: list[str], rows: Sequence[Mapping[str, MetricValue]]) -> list[str]:
    def largest(name: str) -> float:
        values = [row.get(name) for row in rows]
        return max((value for value in values if isinstance(value, (int, float))), default=0.0)

    stalls = iter(sorted((name for name in names if name.startswith("stall.")), key=largest, reverse=True))
    return [next(stalls) if name.startswith("stall.") else name for name in names]


def _whole(row: Mapping[str, MetricValue], name: str) -> str:
    value = row.get(name)
    return f"{value:.0f}" if isinstance(value, (int, float)) else ""


def _pair(row: Mapping[str, MetricValue], one: str, other: str) -> str:
    values = [_whole(row, name) for name in (one, other)]
    return f"{'/'.join(value or '?' for value in values)} %" if any(values) else ""
