"""Two files of ncu's side by side, as a terminal shows them. Loads rich."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gpuperf.measure.ncu.comparison import changes, pair_up, visibly_worse
from pytest_gpuperf.metrics import METRICS
from pytest_gpuperf.metrics.combine import combine_both
from pytest_gpuperf.records.change import printable, show_pair
from pytest_gpuperf.report.kernel_table import NAME_COLUMNS, launch_name, show_duration, show_metric
from pytest_gpuperf.report.layout import INDENT, Column, cut_middle, lay_out, wrapped

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_gpuperf.measure.ncu.report_file import ReportKernel
    from pytest_gpuperf.records import MetricValue
    from pytest_gpuperf.records.change import Change

MOVERS_SHOWN = 8
"""So many metrics of a pair are shown unless a preset asks for its own."""
STYLES = {True: "bold red", False: "bold green", None: ""}


def comparison_lines(
    old: Sequence[ReportKernel],
    new: Sequence[ReportKernel],
    metrics: Sequence[str],
    *,
    everything: bool,
    width: int,
    colour: bool,
) -> list[str]:
    """The durations of all pairs, then what moved in each of them, the largest movers first.

    Args:
        old: Launches of the file that is compared with.
        new: Launches of the file at hand.
        metrics: Short or raw names.
        everything: Whether all that moved is shown, else the eight largest movers.
        width: Columns of the terminal.
        colour: Whether ANSI colours may be used.
    """
    found = pair_up(old, new)
    units = {name: unit for kernel in (*old, *new) for name in metrics if (unit := kernel.unit(name))}
    sides = [(_pair_name(*pair), pair[0].metrics, pair[1].metrics) for pair in found.pairs]
    if len(old) > 1 or len(new) > 1:
        sides.append((_all(old, new), *combine_both(old, new)))
    lines = _duration_lines(sides, width, colour) if sides else []
    alone = [
        f"only in {where}: {', '.join(map(launch_name, kernels))}"
        for kernels, where in ((found.only_old, "old"), (found.only_new, "new"))
        if kernels
    ]
    lines += ["", *wrapped(alone, width)] if alone else []
    still = []
    for name, before, after in sides:
        found_changes = changes(before, after, metrics)
        if any(change.baseline != change.actual for change in found_changes):
            lines += ["", name, *_change_lines(found_changes, units, everything, width, colour)]
        else:
            still.append(name)
    return [*lines, "", *wrapped([f"nothing moved in {', '.join(still)}"], width)] if still else lines


def _pair_name(old: ReportKernel, new: ReportKernel) -> str:
    """`#3 square_kernel`, with `#3 -> #5` where the launch is another one."""
    if old.launch == new.launch:
        return launch_name(new)
    return printable(f"#{old.launch} -> #{new.launch} {new.name}")


def _all(old: Sequence[ReportKernel], new: Sequence[ReportKernel]) -> str:
    return f"all {len(new)}" if len(old) == len(new) else f"all {len(old)} -> all {len(new)}"


def _duration_lines(
    sides: Sequence[tuple[str, Mapping[str, MetricValue], Mapping[str, MetricValue]]],
    width: int,
    colour: bool,
) -> list[str]:
    moved = [next(iter(changes(before, after, ["duration_us"])), None) for _, before, after in sides]
    titles, entries = lay_out(
        Column("kernel", [cut_middle(name, NAME_COLUMNS) for name, _, _ in sides], "left"),
        [
            Column("old", [show_duration(before) for _, before, _ in sides]),
            Column("new", [show_duration(after) for _, _, after in sides]),
        ],
        [
            Column("change", [show_movement(change, _unit(change)) if change else "" for change in moved]),
            _effect(moved),
        ],
        width=width,
        colour=colour,
    )
    return [*titles, *(line for entry in entries for line in entry)]


def _change_lines(
    found: Sequence[Change], units: Mapping[str, str], everything: bool, width: int, colour: bool
) -> list[str]:
    moved = [change for change in found if change.baseline != change.actual]
    shown = moved if everything else moved[:MOVERS_SHOWN]
    rest = []
    if len(shown) < len(moved):
        rest.append(f"{len(moved) - len(shown)} moved less, --preset=all shows them")
    if len(moved) < len(found):
        rest.append(f"{len(found) - len(moved)} did not move")
    pairs = [_show_pair(change, units.get(change.metric, "")) for change in shown]
    titles, entries = lay_out(
        Column("metric", [printable(change.metric) for change in shown], "left"),
        [
            Column("unit", [printable(units.get(change.metric, "")) for change in shown], "left"),
            Column("old", [before for before, _ in pairs]),
            Column("new", [after for _, after in pairs]),
            Column("change", [show_movement(change, _unit(change)) for change in shown]),
        ],
        [_effect(shown)],
        width=width - INDENT,
        colour=colour,
    )
    lines = [*titles, *(line for entry in entries for line in entry), *(["; ".join(rest)] if rest else [])]
    return [" " * INDENT + line for line in lines]


def _effect(found: Sequence[Change | None]) -> Column:
    worse = [None if change is None else visibly_worse(change) for change in found]
    words = {True: "worse", False: "better", None: ""}
    return Column("", [words[one] for one in worse], "left", [STYLES[one] for one in worse])


def _show_pair(change: Change, unit: str) -> tuple[str, str]:
    before, after = (show_metric(value, unit) for value in (change.baseline, change.actual))
    if before == after:
        before, after = map(printable, show_pair(change.baseline, change.actual))
    return before, after


def _unit(change: Change) -> str:
    metric = METRICS.get(change.metric)
    return metric.unit if metric else ""


def show_movement(change: Change, unit: str) -> str:
    """`-4.8 %`, for a percentage `+3.2 points`; empty for words and for what began at 0."""
    if unit == "%" and not isinstance(change.actual, str) and not isinstance(change.baseline, str):
        return f"{change.actual - change.baseline:+.1f} points"
    return "" if change.change_pct is None else f"{change.change_pct:+.1f} %"
