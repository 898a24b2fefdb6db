"""The launches in two files from ncu side by side."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_gpuperf.features.compare.comparison import Comparison, MetricLine, ValueCell
from pytest_gpuperf.features.compare.pairing import pair_the_rest, pair_up
from pytest_gpuperf.features.compare.value_change import change_of, size_of, visibly_worse
from pytest_gpuperf.features.ncu.common_weights import combine_both
from pytest_gpuperf.features.ncu.launches import difference_notes, launch_name, measured

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pytest_gpuperf.features.ncu.report_file import ReportKernel
    from pytest_gpuperf.records import MetricValue

TITLES = ("old", "new")


def compare_kernels(
    old: Sequence[ReportKernel],
    new: Sequence[ReportKernel],
    metrics: Sequence[str],
    sources: tuple[str, str],
) -> Comparison:
    """Compare each launch with its partner, and all launches together.

    The first launch of a kernel belongs to the first with the same name, the second to the second. Names with
    the same template arguments go first, so that instances of one template do not change places; the rest
    goes by the function's name, because a change may be a template argument. Launches with other names are
    paired by their order if both files have as many of them at the same place.

    Args:
        old: Launches of the file to compare with.
        new: Launches of the other file.
        metrics: Short or raw names.
        sources: Names of the two files.

    Returns:
        The lines of each pair, the largest mover first; then the launches without a partner, with one side
        empty; then all launches as one, if there are several.
    """
    units = {name: unit for kernel in (*old, *new) for name in metrics if (unit := kernel.unit(name))}
    rows = pair_up([old, new], lambda kernel: kernel.demangled or kernel.name, lambda kernel: kernel.name)
    renamed = pair_the_rest([old, new], rows)
    taken = {place for row in renamed for place in row.items()}
    rows = sorted(
        [row for row in rows if taken.isdisjoint(row.items())] + renamed, key=lambda row: min(row.items())
    )
    pairs = [(old[row[0]], new[row[1]]) for row in rows if len(row) > 1]
    lines: list[MetricLine] = []
    notes = difference_notes(old, new)
    if renamed:
        notes.append(f"{len(renamed)} renamed: paired by their order")
    for one, other in pairs:
        lines += _lines(_pair_name(one, other), one.metrics, other.metrics, metrics, units)
    for side, kernels in enumerate((old, new)):
        alone = [kernels[row[side]] for row in rows if row.keys() == {side}]
        for kernel in alone:
            lines += _lone_lines(kernel, side, metrics, units)
        if alone:
            notes.append(f"only in {TITLES[side]}: {', '.join(map(launch_name, alone))}")
    if len(old) > 1 or len(new) > 1:
        counts = [f"all {len(old)}"] * (len(old) != len(new)) + [f"all {len(new)}"]
        both = combine_both(measured(old), measured(new))
        lines += _lines(" -> ".join(counts), *both, metrics, units)
    return Comparison(sources, TITLES, tuple(lines), tuple(notes))


def _pair_name(old: ReportKernel, new: ReportKernel) -> str:
    if old.name != new.name:
        return f"{launch_name(old)} -> {launch_name(new)}"
    return launch_name(new) if old.launch == new.launch else f"#{old.launch} -> {launch_name(new)}"


def _lines(
    subject: str,
    old: Mapping[str, MetricValue],
    new: Mapping[str, MetricValue],
    metrics: Sequence[str],
    units: Mapping[str, str],
) -> Iterator[MetricLine]:
    found = [change_of(name, old[name], new[name]) for name in metrics if name in old and name in new]
    for change in sorted(found, key=size_of, reverse=True):
        seen = replace(change, worse=visibly_worse(change))
        cells = (ValueCell(change.baseline), ValueCell(change.actual, seen))
        yield MetricLine(subject, change.metric, units.get(change.metric, ""), cells)


def _lone_lines(
    kernel: ReportKernel, side: int, metrics: Sequence[str], units: Mapping[str, str]
) -> Iterator[MetricLine]:
    for name in metrics:
        if name in kernel.metrics:
            cells = (ValueCell(kernel.metrics[name]), ValueCell())
            both = cells if side == 0 else cells[::-1]
            yield MetricLine(launch_name(kernel), name, units.get(name, ""), both)
