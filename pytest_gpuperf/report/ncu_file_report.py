"""The launches of a file from ncu as a report: an overview, their metrics, and ncu's own rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_gpuperf.compare.kernels import launch_name
from pytest_gpuperf.measure.ncu.rules import by_speedup
from pytest_gpuperf.metrics.combine import combine, weights_used
from pytest_gpuperf.report.show import (
    number_in,
    show_duration,
    show_extent,
    show_metric,
    show_number,
    show_occupancy,
    show_stall,
    show_time,
)
from pytest_gpuperf.report.table import Column, Report, Table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_gpuperf.measure.ncu.report_file import ReportKernel
    from pytest_gpuperf.measure.ncu.rules import Rule
    from pytest_gpuperf.records import MetricValue

NAME_COLUMNS = 44
"""Longer names are cut if a launch then fits on one line."""
RULES_SHOWN = 3
"""Maximum number of rules of a launch, unless all are asked for."""


def ncu_file_report(
    kernels: Sequence[ReportKernel], metrics: Sequence[str], tables: Sequence[Table]
) -> Report:
    """Return tables for people, and all launches with some metrics for programs.

    Args:
        kernels: The launches.
        metrics: Short or raw names.
        tables: Any of the tables below.
    """
    names = [name for name in metrics if any(name in kernel.metrics for kernel in kernels)]
    data = [_launch(kernel, names) for kernel in kernels]
    records = [
        {
            **{field: launch[field] for field in ("launch", "name", "demangled")},
            **{field: "x".join(map(str, launch[field] or ())) for field in ("grid", "block")},
            **{name: kernel.metrics.get(name, "") for name in names},
        }
        for launch, kernel in zip(data, kernels, strict=True)
    ]
    return Report(tables, records, data)


def _launch(kernel: ReportKernel, names: Sequence[str]) -> dict[str, Any]:
    return {
        "launch": kernel.launch,
        "name": kernel.name,
        "demangled": kernel.demangled or kernel.name,
        "grid": kernel.grid if any(kernel.grid) else None,
        "block": kernel.block if any(kernel.block) else None,
        "ranges": kernel.ranges,
        "metrics": {
            name: {"value": kernel.metrics[name], "unit": kernel.unit(name)}
            for name in names
            if name in kernel.metrics
        },
        "rules": by_speedup(kernel.rules),
    }


def overview_table(kernels: Sequence[ReportKernel]) -> Table:
    """Return one row for each launch, and one for all of them."""
    names = [launch_name(kernel) for kernel in kernels]
    rows: list[Mapping[str, MetricValue]] = [kernel.metrics for kernel in kernels]
    if len(kernels) > 1:
        names.append(f"all {len(kernels)}")
        # The least theoretical occupancy of all is not the whole of which the mean achieved one is a part.
        row = combine(kernels)
        rows.append({name: row[name] for name in row if name != "theoretical_occupancy"})
    blank = [""] * (len(rows) - len(kernels))
    stalls = [name for row in rows for name in row if name.startswith("stall.")]
    shown = ["sm_throughput", "memory_throughput", "achieved_occupancy", *dict.fromkeys(stalls)]
    columns = [
        Column("kernel", names, "name", code=True, most=NAME_COLUMNS),
        Column("grid", [*(show_extent(kernel.grid) for kernel in kernels), *blank]),
        Column("block", [*(show_extent(kernel.block) for kernel in kernels), *blank]),
        Column("regs", [show_number(row, "registers_per_thread") for row in rows]),
        Column("duration", [show_duration(row) for row in rows]),
        Column("SOL sm/mem", [_throughputs(row) for row in rows]),
        Column("occupancy", [show_occupancy(row) for row in rows]),
        Column("top stall", [show_stall(row) for row in rows], left=True),
    ]
    return Table(columns, notes=_weight_notes(kernels, shown))


def metric_tables(kernels: Sequence[ReportKernel], metrics: Sequence[str]) -> list[Table]:
    """Return a legend of the launches, and their metrics: one column for each launch, and one for all.

    Args:
        kernels: The launches.
        metrics: Short or raw names; those without a value are left out, and stalls are sorted by size.
    """
    legend = [
        Column("kernel", [launch_name(kernel) for kernel in kernels], "name", code=True),
        Column("grid", [show_extent(kernel.grid) for kernel in kernels]),
        Column("block", [show_extent(kernel.block) for kernel in kernels]),
    ]
    rows: dict[str, Mapping[str, MetricValue]] = {f"#{kernel.launch}": kernel.metrics for kernel in kernels}
    if len(kernels) > 1:
        rows[f"all {len(kernels)}"] = combine(kernels)
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
    return [Table(legend), Table(columns, notes=_weight_notes(kernels, shown), split=True)]


def rule_table(kernels: Sequence[ReportKernel], *, everything: bool) -> Table:
    """Return ncu's rules for each launch, the largest estimated speedup first.

    Args:
        kernels: The launches.
        everything: True for all rules in full; False for the first sentence of the three rules of each launch
            with the largest estimated speedup.
    """
    rows: list[tuple[str, str]] = []
    hidden = 0
    for kernel in kernels:
        rules = by_speedup(kernel.rules)
        estimated = [rule for rule in rules if rule.estimated_speedup_pct is not None]
        shown = rules if everything else estimated[:RULES_SHOWN]
        hidden += len(rules) - len(shown)
        rows += [(launch_name(kernel), _rule_text(rule, kernel, everything)) for rule in shown]
    notes = [f"… {hidden} more; --rules=all shows them, and all in full"] if hidden else []
    if not rows:
        return Table(notes=notes)
    names, texts = zip(*rows, strict=True)
    columns = [Column("kernel", names, "group", code=True), Column("rule", texts, "detail")]
    return Table(columns, ["ncu's rules, by estimated speedup (local: of one part of the GPU)"], notes)


def _rule_text(rule: Rule, kernel: ReportKernel, everything: bool) -> str:
    head: str = rule.kind
    if rule.estimated_speedup_pct is not None:
        head = f"{rule.estimated_speedup_pct:.1f} %{_scope(rule, rule.estimated_speedup_pct, kernel)}"
    message = rule.message if everything else _first_sentence(rule.message)
    return f"{head}, {rule.title or rule.rule}: {message}"


def _scope(rule: Rule, speedup_pct: float, kernel: ReportKernel) -> str:
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


def _weight_notes(kernels: Sequence[ReportKernel], metrics: Sequence[str]) -> list[str]:
    """Name the weights of the means in the combined row; empty without a mean."""
    used = weights_used(kernels, metrics) if len(kernels) > 1 else {}
    families = {
        weight: dict.fromkeys("stalls" if name.startswith("stall.") else name for name in names)
        for weight, names in used.items()
    }
    text = "; ".join(f"{', '.join(names)} by {weight}" for weight, names in families.items())
    return [f"all {len(kernels)}, weighted means: {text}"] if text else []


def _by_size(names: list[str], rows: Sequence[Mapping[str, MetricValue]]) -> list[str]:
    def largest(name: str) -> float:
        return max((value for row in rows if (value := number_in(row, name)) is not None), default=0.0)

    stalls = iter(sorted((name for name in names if name.startswith("stall.")), key=largest, reverse=True))
    return [next(stalls) if name.startswith("stall.") else name for name in names]


def _throughputs(row: Mapping[str, MetricValue]) -> str:
    values = [show_number(row, name) for name in ("sm_throughput", "memory_throughput")]
    return f"{'/'.join(value or '?' for value in values)} %" if any(values) else ""
