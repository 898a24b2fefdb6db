"""Which kernels could be one: rows of small ones that run one after the other."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from pytest_gpuperf.records import FusionCandidate

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_gpuperf.records import KernelClass

FUSIBLE: frozenset[KernelClass] = frozenset({"small_frequent", "data_movement", "reduction", "elementwise"})
"""Classes whose kernels are worth being part of another."""
SHOWN = 10
"""Candidates that are kept."""


@dataclass(frozen=True)
class Launch:
    """One activity of a stream."""

    name: str
    duration_us: float
    kernel_class: KernelClass | None
    """None for a copy or a fill, which ends a row."""


def fusion_candidates(
    streams: Sequence[Sequence[Launch]], launch_gap_us: float
) -> tuple[FusionCandidate, ...]:
    """Rows of two or more fusible kernels, those that would save most first.

    A row of k kernels as one kernel saves k - 1 launches, and with each the usual launch gap:
    `saved_us = times * (k - 1) * launch_gap_us`. What a fused kernel no longer writes and reads again is left
    out, because a trace does not say how many bytes that are; `at_most_us` bounds it: a fused kernel takes at
    least as long as the longest of the row.

    Args:
        streams: What ran on each stream, in order.
        launch_gap_us: Idle time that a launch usually leaves before its kernel, in microseconds.
    """
    found: dict[tuple[str, ...], list[float]] = {}
    for stream in streams:
        for row in _rows(stream):
            durations = [launch.duration_us for launch in row]
            names = tuple(launch.name for launch in row)
            found.setdefault(names, []).append(sum(durations) - max(durations))
    candidates = []
    for names, spared in found.items():
        saved = len(spared) * (len(names) - 1)
        saved_us = saved * launch_gap_us
        candidates.append(
            FusionCandidate(
                kernels=names,
                times=len(spared),
                saved_launches=saved,
                saved_us=saved_us,
                at_most_us=saved_us + sum(spared),
            )
        )
    candidates.sort(key=lambda candidate: (-candidate.saved_us, -candidate.at_most_us))
    return tuple(candidates[:SHOWN])


def _rows(stream: Sequence[Launch]) -> Iterator[list[Launch]]:
    for fusible, group in groupby(stream, key=lambda launch: launch.kernel_class in FUSIBLE):
        row = list(group)
        if fusible and len(row) > 1:
            yield row
