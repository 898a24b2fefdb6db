"""The launches of a file from ncu as a report: an overview, their metrics, and ncu's own rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_gpuperf.features.ncu.details_labels import by_speedup
from pytest_gpuperf.features.ncu.launches import (
    between,
    clocks_mhz,
    failure_note,
    gpu_names,
    groups_of,
    launch_name,
    measured,
)
from pytest_gpuperf.metrics.combination import combine
from pytest_gpuperf.report.number_format import (
    count,
    number_in,
    show_duration,
    show_extent,
    show_metric,
    show_number,
    show_occupancy,
    show_stall,
    show_time,
)
from pytest_gpuperf.report.table import KERNEL_COLUMNS, Column, Report, Table

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from pytest_gpuperf.features.ncu.launches import LaunchGroup
    from pytest_gpuperf.features.ncu.report_file import NcuFile, ReportKernel
    from pytest_gpuperf.features.ncu.rule_results import RuleResult
    from pytest_gpuperf.records import MetricValue

RULES_SHOWN = 3
"""Maximum number of rules of a launch, unless all are asked for."""
OVERVIEW = frozenset(
    {
        *("registers_per_thread", "duration_us", "sm_throughput", "memory_throughput", "dram_gb_per_s"),
        *("achieved_occupancy", "theoretical_occupancy", "sm_clock_mhz", "grid_size", "block_size"),
        *("local_spill_requests", "local_spill_instructions"),
    }
)
"""Metrics of the overview, which has the largest stall, too."""
_FACTS = ("launch", "name", "demangled")
_FILE_FACTS = ("gpu", "compute_capability", "ncu_version", "failed")


def ncu_file_report(file: NcuFile, metrics: Sequence[str], tables: Sequence[Table]) -> Report:
    """Return tables for people, and all launches with some metrics for programs.

    Args:
        file: The launches.
        metrics: Short or raw names.
        tables: Any of the tables below.
    """
    names = [name for name in metrics if any(name in kernel.metrics for kernel in file.kernels)]
    data = [_launch(kernel, names, file) for kernel in file.kernels]
    records = [
        {
            **{field: launch[field] for field in _FACTS},
            **{field: "x".join(map(str, launch[field] or ())) for field in ("grid", "block")},
            **{field: launch[field] for field in _FILE_FACTS},
            **{name: kernel.metrics.get(name, "") for name in names},
        }
        for launch, kernel in zip(data, file.kernels, strict=True)
    ]
    return Report(tables, records, data)


def _launch(kernel: ReportKernel, names: Sequence[str], file: NcuFile) -> dict[str, Any]:
    return {
        "launch": kernel.launch,
        "name": kernel.name,
        "demangled": kernel.demangled or kernel.name,
        "grid": kernel.grid if any(kernel.grid) else None,
        "block": kernel.block if any(kernel.block) else None,
        "ranges": kernel.ranges,
        "gpu": kernel.gpu,
        "compute_capability": kernel.compute_capability,
        "device": kernel.device,
        "ncu_version": file.ncu_version,
        "failed": kernel.failed,
        "notes": file.notes,
        "metrics": {
            name: {"value": kernel.metrics[name], "unit": kernel.unit(name)}
            for name in names
            if name in kernel.metrics
        },
        "rules": by_speedup(kernel.rules),
    }


def header_table(file: NcuFile, shown: Collection[str] = OVERVIEW) -> Table:
    """Return the GPU, the version of ncu and the clock, with notes about the file.

    Args:
        file: The file.
        shown: Metrics that the tables below show.
    """
    notes = [*file.notes]
    if failed := failure_note(file.kernels):
        notes.append(failed)
    if hidden := max(len(kernel.metrics.keys() - {*shown}) for kernel in file.kernels):
        all_of_them = "--preset=all; --json and --csv have raw ones, too"
        notes.append(f"not shown: {count(hidden, 'metric')} ({all_of_them})")
    return Table(above=header_lines(file), notes=notes)


def header_lines(file: NcuFile) -> list[str]:
    """Return a line with the GPUs, the version of ncu and the SM clock; none if the file tells nothing."""
    facts = gpu_names(file.kernels)
    facts += [f"ncu {file.ncu_version}"] * bool(file.ncu_version)
    if clocks := clocks_mhz(file.kernels):
        facts.append(f"SM clock {between(*clocks)} MHz")
    return [", ".join(facts)] if facts else []


def overview_table(kernels: Sequence[ReportKernel], *, each: bool = False) -> Table:
    """Return one row for each group of identical launches, and one for all of them.

    Args:
        kernels: The launches.
        each: True for one row for each launch.
    """
    groups = groups_of(kernels, each=each)
    names = [_group_name(group) for group in groups]
    rows: list[Mapping[str, MetricValue]] = [group.typical.metrics for group in groups]
    whole = _whole(kernels)
    if whole:
        names.append(_whole_name(kernels))
        # The least theoretical occupancy of all is not the whole of which the mean achieved one is a part.
        rows.append({name: whole[name] for name in whole if name != "theoretical_occupancy"})
    blank = [""] * (len(rows) - len(groups))
    columns = [
        Column("kernel", names, "name", code=True, most=KERNEL_COLUMNS),
        Column("grid", [*(show_extent(group.first.grid) for group in groups), *blank]),
        Column("block", [*(show_extent(group.first.block) for group in groups), *blank]),
        Column("regs", [show_number(row, "registers_per_thread") for row in rows]),
        Column("spills", [_spills(row) for row in rows]),
        Column("duration", [show_duration(row) for row in rows]),
        Column("SOL sm/mem", [_throughputs(row) for row in rows]),
        Column("GB/s", [_rate(row) for row in rows]),
        Column("occupancy", [show_occupancy(row) for row in rows]),
        Column("top stall", [show_stall(row) for row in rows], left=True),
        Column("of several", [*map(_spread, groups), *blank], "detail"),
    ]
    return Table(columns, notes=_group_notes(groups))


def _whole(kernels: Sequence[ReportKernel]) -> dict[str, MetricValue]:
    """Combine all launches with values; empty for one."""
    return combine(measured(kernels)) if len(kernels) > 1 else {}


def _whole_name(kernels: Sequence[ReportKernel]) -> str:
    number = len(measured(kernels))
    return f"all {number}" if number == len(kernels) else f"{number} of {len(kernels)}"


def _group_name(group: LaunchGroup, name: str = "") -> str:
    first: Any = group.first
    known = name or launch_name(first)
    if group.count > 1:
        known += f" x{group.count}"
    return f"{known} failed" if group.failed else known


def _spread(group: LaunchGroup) -> str:
    times = group.durations_us
    if times is None or group.count == 1:
        return ""
    low, middle, high = map(show_time, times)
    return f"min {low}, median {middle}, max {high}"


def _group_notes(groups: Sequence[LaunchGroup]) -> list[str]:
    if all(len(group.kernels) < 2 or group.failed for group in groups):
        return []
    return ["xN: medians of N launches with the same kernel, grid and block; --each shows each launch"]


def metric_tables(
    kernels: Sequence[ReportKernel], metrics: Sequence[str], *, each: bool = False
) -> list[Table]:
    """Return a legend of the launches, and their metrics: one column for each group, and one for all.

    Args:
        kernels: The launches.
        metrics: Short or raw names; those without a value are left out, and stalls are sorted by size.
        each: True for one column for each launch.
    """
    groups = groups_of(kernels, each=each)
    legend = [
        Column("kernel", [_group_name(group) for group in groups], "name", code=True),
        Column("grid", [show_extent(group.first.grid) for group in groups]),
        Column("block", [show_extent(group.first.block) for group in groups]),
    ]
    rows: dict[str, Mapping[str, MetricValue]] = {
        _group_name(group, launch_name(group.first).split()[0]): group.typical.metrics  # type: ignore[arg-type]
        for group in groups
    }
    if whole := _whole(kernels):
        rows[_whole_name(kernels)] = whole
    known = [name for name in metrics if any(name in kernel.metrics for kernel in kernels)]
    if not known:
        return [Table(legend, notes=["the file has none of these metrics"])]
    shown = _by_size(known, [kernel.metrics for kernel in kernels])
    units = {name: next(filter(None, (kernel.unit(name) for kernel in kernels)), "") for name in shown}
    columns = [
        Column("metric", shown, "name", code=True),
        Column("unit", list(units.values()), "unit"),
        *(
            Column(title, [show_metric(row.get(name), units[name]) for name in shown])
            for title, row in rows.items()
        ),
    ]
    return [Table(legend), Table(columns, notes=_group_notes(groups))]


def rule_table(kernels: Sequence[ReportKernel], *, everything: bool, each: bool = False) -> Table:
    """Return ncu's rules for the first launch of each group, the largest estimated speedup first.

    Args:
        kernels: The launches.
        each: True for the rules of each launch.
        everything: True for all rules in full; False for the first sentence of the three rules of each launch
            with the largest estimated speedup.
    """
    rows: list[tuple[str, str]] = []
    hidden = 0
    for group in groups_of(kernels, each=each):
        kernel: Any = group.first
        rules = by_speedup(kernel.rules)
        estimated = [rule for rule in rules if rule.estimated_speedup_pct is not None]
        shown = rules if everything else estimated[:RULES_SHOWN]
        hidden += len(rules) - len(shown)
        rows += [(_group_name(group), _rule_text(rule, kernel, everything)) for rule in shown]
    notes = [f"… {count(hidden, 'more rule')}; --rules=all shows them, and all in full"] if hidden else []
    if not rows:
        return Table(notes=notes)
    names, texts = zip(*rows, strict=True)
    columns = [Column("kernel", names, "group", code=True), Column("rule", texts, "detail")]
    return Table(columns, ["ncu's rules, by estimated speedup (local: of one part of the GPU)"], notes)


def _rule_text(rule: RuleResult, kernel: ReportKernel, everything: bool) -> str:
    head: str = rule.kind
    if rule.estimated_speedup_pct is not None:
        head = f"{rule.estimated_speedup_pct:.1f} %{_scope(rule, rule.estimated_speedup_pct, kernel)}"
    message = rule.message if everything else _first_sentence(rule.message)
    return f"{head}, {rule.title or rule.rule}: {message}"


def _scope(rule: RuleResult, speedup_pct: float, kernel: ReportKernel) -> str:
    """Return the part of an estimate, or its time: what Nsight calls runtime improvement."""
    if rule.scope == "local":
        return " local"
    duration = number_in(kernel.metrics, "duration_us")
    if rule.scope != "global" or duration is None:
        return ""
    return f" or {show_time(duration * speedup_pct / 100)}"


def _first_sentence(message: str) -> str:
    sentence, stop, rest = message.partition(". ")
    return f"{sentence}." if stop and rest[:1].isupper() else message


def _by_size(names: list[str], rows: Sequence[Mapping[str, MetricValue]]) -> list[str]:
    def largest(name: str) -> float:
        return max((value for row in rows if (value := number_in(row, name)) is not None), default=0.0)

    stalls = iter(sorted((name for name in names if name.startswith("stall.")), key=largest, reverse=True))
    return [next(stalls) if name.startswith("stall.") else name for name in names]


def _spills(row: Mapping[str, MetricValue]) -> str:
    """Show the requests of spilled registers, or instructions on local memory; empty without any."""
    names = ("local_spill_requests", "local_spill_instructions")
    return next((show_number(row, name) for name in names if number_in(row, name)), "")


def _rate(row: Mapping[str, MetricValue]) -> str:
    """Show the rate of DRAM in GB/s with the digits that the details page has, too."""
    value = number_in(row, "dram_gb_per_s")
    return "" if value is None else f"{float(f'{value:.3g}'):.4g}" if value >= 10 else f"{value:.1f}"


def _throughputs(row: Mapping[str, MetricValue]) -> str:
    values = [show_number(row, name) for name in ("sm_throughput", "memory_throughput")]
    return f"{'/'.join(value or '?' for value in values)} %" if any(values) else ""
