"""What changed inside a kernel since its baseline, the largest mover first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from pytest_gpuperf.judge.compare import compare
from pytest_gpuperf.judge.explain.explain import diagnose_kernel
from pytest_gpuperf.judge.wording import time_line
from pytest_gpuperf.records.change import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pytest_gpuperf.judge.explain.rules import Diagnosis
    from pytest_gpuperf.judge.gate import TimeComparison
    from pytest_gpuperf.records import KernelProfile, Measurement, MetricValue
    from pytest_gpuperf.records.baseline import MeasurementBaseline

SHOWN_CHANGES = 8


def change_lines(
    measurement: Measurement, known: MeasurementBaseline, time: TimeComparison | None
) -> tuple[str, ...]:
    """How a measurement differs from its baseline, where that is more than noise.

    Args:
        measurement: What was measured.
        known: Its baseline.
        time: What the gate says of the time.

    Returns:
        The time, the kernels, then the counters that moved, the largest mover first; then the diagnoses that
        came and went. Nothing where the time has neither regressed nor improved, no exact counter is worse
        and the same kernels run.
    """
    comparison = compare(measurement, known, time)
    time_moved = comparison.slower or comparison.faster
    if not (time_moved or comparison.worse_exact or comparison.kernels):
        return ()
    lines = [time_line(time, measurement.timing.mode)] if time and time_moved and measurement.timing else []
    lines += [comparison.kernels] if comparison.kernels else []
    lines += [str(change) for change in comparison.counters[:SHOWN_CHANGES]]
    more = len(comparison.counters) - SHOWN_CHANGES
    if more > 0:
        lines.append(f"and {more} more counter{'' if more == 1 else 's'}")
    profile = measurement.profile
    if profile is not None and len(profile.kernels) == 1:
        lines += _turned(profile.kernels[0], known.counters, profile.chip)
    return tuple(printable(line) for line in lines)


def _turned(kernel: KernelProfile, counters: Mapping[str, MetricValue], chip: str) -> Iterator[str]:
    # What only one of them has measured would come or go without a change.
    both = kernel.metrics.keys() & counters.keys()
    now, before = (
        _codes(diagnose_kernel(msgspec.structs.replace(kernel, metrics={k: row[k] for k in both}), chip))
        for row in (kernel.metrics, counters)
    )
    for codes, others, word in ((now, before, "now"), (before, now, "no longer")):
        moved = [code for code in codes if code not in others]
        if moved:
            yield f"{word} {', '.join(moved)}"


def _codes(diagnoses: Sequence[Diagnosis]) -> list[str]:
    return [diagnosis.code for diagnosis in diagnoses]
