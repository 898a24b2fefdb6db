"""The kernels of two traces side by side."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from pytest_gpuperf.features.compare.changes import change_of, visibly_worse
from pytest_gpuperf.features.compare.comparison import Cell, Comparison, Launches, Line
from pytest_gpuperf.features.compare.pairing import pair_the_rest, pair_up
from pytest_gpuperf.records.values import VALUES

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from pytest_gpuperf.records import Trace, TracedKernel

TITLES = ("old", "new")
RENAMED = " -> "
"""Between the old and the new name of a kernel."""
_TOTALS = (
    "span_us", "busy_us", "kernel_us", "computation_us", "communication_us", "exposed_communication_us",
    "idle_us", "host_wait_us", "kernel_wait_us", "copy_us", "launches",
)  # fmt: skip


class _Pair(NamedTuple):
    old: TracedKernel | None
    new: TracedKernel | None


def compare_totals(old: Trace, new: Trace, sources: tuple[str, str]) -> Comparison:
    """Compare the values of two traces."""
    values = [_totals(one) for one in (old, new)]
    lines = []
    for name in _TOTALS:
        before, after = (one.get(name) for one in values)
        if before is not None and after is not None:
            lines.append(_line("", name, VALUES[name].unit if name in VALUES else "us", before, after))
    return Comparison(sources, TITLES, tuple(lines), ())


def compare_traced_kernels(old: Trace, new: Trace, sources: tuple[str, str]) -> Comparison:
    """Compare the total time of each kernel, the largest difference first.

    A kernel belongs to the one with the same name, grid and block, else to the one with the same name. A
    library or a compiler may have renamed the others: of those between the same neighbours, the first belongs
    to the first, if the function's name, the category or the number of launches is the same.
    """
    sides = [sorted(one.kernels, key=lambda row: row.position) for one in (old, new)]
    rows = pair_up(sides, _exact, lambda row: row.name)
    renamed = pair_the_rest(sides, rows, *_ALIKE)
    taken = {place for row in renamed for place in row.items()}
    pairs = [
        _Pair(sides[0][row[0]] if 0 in row else None, sides[1][row[1]] if 1 in row else None)
        for row in (*(row for row in rows if taken.isdisjoint(row.items())), *renamed)
    ]
    pairs.sort(key=lambda pair: -abs(_us(pair.new) - _us(pair.old)))
    notes = [f"{len(renamed)} renamed: paired by their order"] if renamed else []
    gone = [pair.old for pair in pairs if pair.new is None]
    added = [pair.new for pair in pairs if pair.old is None]
    for title, only in zip(TITLES, (gone, added), strict=True):
        if only:
            notes.append(f"only in {title}: {len(only)} ({sum(map(_us, only)):.0f} µs)")
    return Comparison(sources, TITLES, tuple(map(_kernel_line, pairs)), tuple(notes))


_ALIKE: Sequence[Callable[[TracedKernel], Hashable]] = (
    lambda kernel: (_head(kernel.name), kernel.calls),
    lambda kernel: _head(kernel.name),
    lambda kernel: (kernel.category, kernel.calls),
    lambda kernel: kernel.category,
    lambda kernel: kernel.calls,
)


def _kernel_line(pair: _Pair) -> Line:
    old, new = pair
    calls = (old.calls if old else 0, new.calls if new else 0)
    if old is not None and new is not None:
        name = new.name if old.name == new.name else f"{old.name}{RENAMED}{new.name}"
        line = _line(name, "total_us", "us", old.total_us, new.total_us)
        return replace(line, launches=Launches(new.name, None, None, *calls))
    if new is not None:
        launches = Launches(new.name, None, None, *calls, "new")
        return Line(new.name, "total_us", "us", (Cell(), Cell(new.total_us)), launches)
    assert old is not None  # a pair has a kernel
    launches = Launches(old.name, None, None, *calls, "old")
    return Line(old.name, "total_us", "us", (Cell(old.total_us), Cell()), launches)


def _line(subject: str, name: str, unit: str, before: float, after: float) -> Line:
    change = change_of(name, before, after, "lower")
    cells = (Cell(before), Cell(after, replace(change, worse=visibly_worse(change))))
    return Line(subject, name, unit, cells)


def _totals(trace: Trace) -> dict[str, float | None]:
    moved, idle = trace.communication, trace.idle
    own = {
        "communication_us": moved.total_us if moved else None,
        "exposed_communication_us": moved.exposed_us if moved else None,
        "idle_us": idle.total_us if idle else None,
        "host_wait_us": idle.host_wait_us if idle else None,
        "kernel_wait_us": idle.kernel_wait_us if idle else None,
    }
    return {name: own[name] if name in own else getattr(trace, name) for name in _TOTALS}


def _exact(kernel: TracedKernel) -> Hashable:
    return kernel.name, kernel.grid, kernel.block


def _head(name: str) -> str:
    return re.split(r"[<(]", name.replace("(anonymous namespace)::", ""), maxsplit=1)[0]


def _us(kernel: TracedKernel | None) -> float:
    return kernel.total_us if kernel else 0.0
