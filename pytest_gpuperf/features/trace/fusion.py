"""Fusion candidates: rows of small kernels that run one after the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_gpuperf.features.trace.kernel_names import kind_of
from pytest_gpuperf.records import FusionCandidate

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_gpuperf.records import KernelClass

FUSIBLE: frozenset[KernelClass] = frozenset({"small_frequent", "data_movement", "reduction", "elementwise"})
"""Classes whose kernels are worth fusing."""
SHOWN = 10
"""Maximum number of candidates kept."""


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
    """Return rows of two or more fusible kernels, the largest saving first.

    A matrix product or a convolution begins a row: the kernels after it can be its epilogue, while several
    products become one kernel only by design.

    A row of k kernels as one kernel saves k - 1 launches, and with each the usual launch gap:
    `saved_us = times * (k - 1) * launch_gap_us`, an upper bound because the gap is one. The memory traffic
    that a fused kernel saves is left out, because a trace does not contain its bytes; `at_most_us` bounds it:
    a fused kernel takes at least as long as the longest of the row.

    Args:
        streams: Activities of each stream, in order.
        launch_gap_us: Idle time that a launch usually leaves before its kernel, in microseconds.
    """
    return _the_best([_candidate(row, launch_gap_us) for stream in streams for row in _rows(stream)])


def _candidate(row: Sequence[Launch], launch_gap_us: float) -> FusionCandidate:
    durations = [launch.duration_us for launch in row]
    saved_us = (len(row) - 1) * launch_gap_us
    return FusionCandidate(
        kernels=tuple(launch.name for launch in row),
        times=1,
        saved_launches=len(row) - 1,
        saved_us=saved_us,
        at_most_us=saved_us + sum(durations) - max(durations),
    )


def _the_best(candidates: Sequence[FusionCandidate]) -> tuple[FusionCandidate, ...]:
    """Return the candidates with the largest saving, equal rows as one."""
    found: dict[tuple[str, ...], FusionCandidate] = {}
    for one in candidates:
        same = found.get(one.kernels)
        found[one.kernels] = one if same is None else _together(same, one)
    best = sorted(found.values(), key=lambda one: (-one.saved_us, -one.at_most_us))
    return tuple(best[:SHOWN])


def _together(one: FusionCandidate, other: FusionCandidate) -> FusionCandidate:
    return FusionCandidate(
        kernels=one.kernels,
        times=one.times + other.times,
        saved_launches=one.saved_launches + other.saved_launches,
        saved_us=one.saved_us + other.saved_us,
        at_most_us=one.at_most_us + other.at_most_us,
    )


def _rows(stream: Sequence[Launch]) -> Iterator[list[Launch]]:
    row: list[Launch] = []
    for launch in stream:
        fusible = launch.kernel_class in FUSIBLE
        if not fusible or _is_product(launch.name):
            yield from [row] if len(row) > 1 else []
            row = []
        if fusible:
            row.append(launch)
    yield from [row] if len(row) > 1 else []


def _is_product(name: str) -> bool:
    return kind_of(name) == "matrix"
