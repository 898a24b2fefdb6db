"""Effect of an update on one measurement of one test, and its lines of text."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from pytest_gpuperf.judge.accuracy import is_comparable, paired_outputs, worse_figures
from pytest_gpuperf.judge.counters import chosen_otherwise
from pytest_gpuperf.records.baseline import same_quantity
from pytest_gpuperf.records.change import show_pair, show_signed, show_value

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_gpuperf.baseline.gather import Taken
    from pytest_gpuperf.judge.times import BaselineComparison
    from pytest_gpuperf.records import Timing
    from pytest_gpuperf.records.baseline import MeasurementBaseline, TimeBaseline

Which = Literal["new", "changed", "all"]
"""`new`: values without a baseline, even if only the time or the counters of a test; `changed`: also values
that moved beyond their tolerance; `all`: everything."""


@dataclass(frozen=True)
class Entry:
    """Effect of an update on one measurement of one test."""

    nodeid: str
    label: str
    """Empty for the whole test."""
    kind: Literal["new", "changed", "refreshed", "refused"]
    """`refreshed`: moved within the tolerance only."""
    lines: tuple[str, ...]
    sessions: str = ""
    """Change of the sessions of its time, if it is not new; also one of `lines`."""

    def wanted(self, which: Which) -> bool:
        """Return True if an update that takes `which` takes this."""
        kinds = {"new": ("new",), "changed": ("new", "changed"), "all": ("new", "changed", "refreshed")}
        return self.kind in kinds[which]


def make_entry(
    nodeid: str,
    label: str,
    taken: Taken,
    known: MeasurementBaseline | None,
    comparison: BaselineComparison | None,
    sessions: str,
) -> Entry:
    """Describe the effect of accepting a measurement.

    Args:
        nodeid: The test.
        label: The measurement.
        taken: The new values.
        known: The values of the baseline; None if it has none.
        comparison: The new values compared with the baseline; None without one.
        sessions: The change of the sessions.
    """
    if known is None or comparison is None:
        rest = "trace" if taken.trace is not None else "accuracy"
        what = _new_time(taken) or ("counters" if taken.has_counters else rest)
        return Entry(nodeid, label, "new", (what,))
    lines = [*_time_lines(taken, known), *filter(None, [sessions]), *map(str, comparison.counters.changes)]
    counters = comparison.counters
    lines += filter(None, (counters.kernels, counters.chosen_otherwise, counters.read_otherwise))
    accuracy, accuracy_moved = _accuracy_change(taken, known)
    lines += filter(None, [accuracy])
    added = _added(taken, known)
    if added:
        lines.append(f"new: {', '.join(added)}")
    kind: Literal["new", "changed", "refreshed"] = "changed" if added else "refreshed"
    if comparison.moved or accuracy_moved:
        kind = "changed"
    elif only_new(taken, known).has_values:
        kind = "new"
    return Entry(nodeid, label, kind, tuple(lines), sessions)


def only_new(taken: Taken, known: MeasurementBaseline) -> Taken:
    """Leave out the parts that the baseline can judge, so that accepting the rest hides no regression."""
    timing = taken.measurement.timing
    judged = timing and known.time and (same_quantity(timing, known.time) or _is_lost(timing, known.time))
    return replace(
        taken,
        times=() if judged else taken.times,
        profile=None if known.counters and not _of_other_launches(taken, known) else taken.profile,
        trace=None if known.trace else taken.trace,
        accuracy=None if known.accuracy else taken.accuracy,
    )


def _is_lost(timing: Timing, known: TimeBaseline) -> bool:
    """Return True if a time fell back to another mode: the quantity of the baseline is lost, not replaced."""
    return bool(timing.not_captured) and (known.mode in ("hot", "cold") or bool(timing.not_recorded))


def _of_other_launches(taken: Taken, known: MeasurementBaseline) -> bool:
    return taken.profile is not None and taken.has_counters and bool(chosen_otherwise(taken.profile, known))


def gone_entry(nodeid: str, label: str, gone: Sequence[str]) -> Entry:
    """Describe parts of a baseline that go because the test no longer measures them."""
    return Entry(nodeid, label, "changed", (f"no longer measured: {', '.join(gone)}",))


def _added(taken: Taken, known: MeasurementBaseline) -> list[str]:
    added = ["time"] if taken.times and known.time is None else []
    added += ["trace"] if taken.trace is not None and not known.trace else []
    added += ["accuracy"] if taken.accuracy is not None and known.accuracy is None else []
    if taken.profile is None or not taken.has_counters:
        return added
    if not known.counters:
        return [*added, "counters"]
    return [*added, *sorted(taken.profile.combined.keys() - known.counters.keys())]


def _accuracy_change(taken: Taken, known: MeasurementBaseline) -> tuple[str, bool]:
    """Return the change of the errors, and True if one moved beyond its tolerance; empty if none changed."""
    now, before = taken.accuracy, known.accuracy
    if now is None or before is None:
        return "", False
    changed: list[str] = []
    moved = False
    for one, known_one in paired_outputs(now, before):
        if not is_comparable(one, known_one):
            if one.kind != known_one.kind:
                return "the accuracy is of other types", True
            continue
        of = f" of {one.output}" if now.others else ""
        pairs = [(name, show_value(old), one.values.get(name)) for name, old in known_one.values.items()]
        changed += [
            f"{name}{of} {old} -> {show_value(new)}"
            for name, old, new in pairs
            if new is not None and show_value(new) != old
        ]
        moved = moved or bool(worse_figures(one, known_one) or worse_figures(known_one, one))
    return ", ".join(changed), moved


def _new_time(taken: Taken) -> str:
    if not taken.times:
        return ""
    mean_us = sum(timing.time_us for _, timing in taken.times) / len(taken.times)
    sessions = f", mean of {len(taken.times)} sessions" if len(taken.times) > 1 else ""
    return f"time {show_value(mean_us)} µs ({taken.times[0][1].mode}{sessions})"


def _time_lines(taken: Taken, known: MeasurementBaseline) -> Iterator[str]:
    timing = taken.measurement.timing
    if timing is None or known.time is None:
        return
    before, after = show_pair(known.time.mean_us, timing.time_us)
    if timing.mode != known.time.mode:
        yield f"time {before} µs ({known.time.mode}) -> {after} µs ({timing.mode})"
    elif timing.source != known.time.source:
        yield f"time {before} µs (by {known.time.source}) -> {after} µs (by {timing.source})"
    else:
        change_pct = 100 * (timing.time_us / known.time.mean_us - 1)
        yield f"time {before} -> {after} µs ({show_signed(change_pct)} %)"
