"""What ncu's own rules say of the launches, as a terminal shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gpuperf.measure.ncu.ncu_rules import by_speedup
from pytest_gpuperf.records.change import printable
from pytest_gpuperf.report.kernel_table import launch_name
from pytest_gpuperf.report.layout import wrapped
from pytest_gpuperf.report.rows import show_time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_gpuperf.measure.ncu.ncu_rules import Rule
    from pytest_gpuperf.measure.ncu.report_file import ReportKernel

RULES_SHOWN = 3
"""So many rules of a launch are shown unless all are asked for."""


def rule_lines(kernels: Sequence[ReportKernel], *, everything: bool, width: int) -> list[str]:
    """The rules of each launch, the largest estimated speedup first; none where no launch has any.

    Args:
        kernels: The launches.
        everything: Whether all rules are shown in full, else of those with an estimated speedup the first
            three, and of these the first sentence.
        width: Columns of the terminal.
    """
    lines: list[str] = []
    hidden = 0
    for kernel in kernels:
        rules = by_speedup(kernel.rules)
        estimated = [rule for rule in rules if rule.estimated_speedup_pct is not None]
        shown = rules if everything else estimated[:RULES_SHOWN]
        hidden += len(rules) - len(shown)
        if shown:
            lines.append(launch_name(kernel))
            lines += [line for rule in shown for line in _rule_lines(rule, kernel, everything, width)]
    if lines:
        title = "ncu's rules, by estimated speedup (local: of one part of the GPU)"
        lines = [*wrapped([title], width), *lines]
    if hidden:
        lines.append(f"… {hidden} more; --rules=all shows them, and all in full")
    return lines


def _rule_lines(rule: Rule, kernel: ReportKernel, everything: bool, width: int) -> list[str]:
    head: str = rule.kind
    if rule.estimated_speedup_pct is not None:
        head = f"{rule.estimated_speedup_pct:.1f} %{_of_what(rule, kernel)}"
    message = rule.message if everything else _first_sentence(rule.message)
    text = printable(f"{head}, {rule.title or rule.rule}: {message}")
    return [f"  {line}" for line in wrapped([text], width - 2)]


def _of_what(rule: Rule, kernel: ReportKernel) -> str:
    """Which part an estimate is of, or the time that it comes to: what Nsight calls runtime improvement."""
    if rule.scope == "local":
        return " local"
    duration = kernel.metrics.get("duration_us")
    if rule.scope != "global" or duration is None or isinstance(duration, str):
        return ""
    assert rule.estimated_speedup_pct is not None
    return f" or {show_time(duration * rule.estimated_speedup_pct / 100)}"


def _first_sentence(message: str) -> str:
    sentence, stop, rest = message.partition(". ")
    return f"{sentence}." if stop and rest[:1].isupper() else message
