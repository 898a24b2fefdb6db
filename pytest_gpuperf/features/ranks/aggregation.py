"""One record from the answers of all ranks."""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING

from msgspec.structs import replace

from pytest_gpuperf.records import Correctness, Timing, Workload
from pytest_gpuperf.records.ranks import RankTimes
from pytest_gpuperf.statistics.decision import interquartile_range, trimmed_mean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_gpuperf.features.ranks.messages import TimesOfRank
    from pytest_gpuperf.records.ranks import Collective


def correctness_of(ranks: Sequence[Correctness]) -> Correctness:
    """Return the check of all ranks: counts added, the rest from the first rank that failed."""
    failed = next((rank for rank, one in enumerate(ranks) if not one.passed), None)
    worst = max(ranks, key=lambda one: one.max_abs_diff) if failed is None else ranks[failed]
    return replace(
        worst,
        failure="" if failed is None else f"rank {failed} of {len(ranks)}: {worst.failure}",
        elements=sum(one.elements for one in ranks),
        mismatched=sum(one.mismatched for one in ranks),
    )


def timing_of(
    ranks: Sequence[TimesOfRank], *, on_gpu: bool, collective: Collective, bytes: int, flops: int
) -> Timing:
    """Return the timing of a call that takes as long as its slowest rank.

    Args:
        ranks: The times of each rank, of the same blocks.
        on_gpu: True if they are by events.
        collective: Kind of the call.
        bytes: Size that its algorithm bandwidth counts, in bytes.
        flops: Operations of a call.
    """
    blocks, skews = [], []
    for of_ranks in zip(*(one.blocks for one in ranks), strict=True):
        calls = list(zip(*of_ranks, strict=True))
        blocks.append(fmean(map(max, calls)))
        skews += [max(call) - min(call) for call in calls]
    time_us = trimmed_mean(blocks)
    known = [one.conditions for one in ranks if one.conditions is not None]
    return Timing(
        mode="queued" if on_gpu else "host",
        time_us=round(time_us, 6),
        spread_pct=100 * interquartile_range(blocks) / time_us,
        blocks_us=tuple(round(block, 6) for block in blocks),
        calls_per_block=len(ranks[0].blocks[0]),
        source="events" if on_gpu else "host",
        work=Workload(bytes=bytes or None, flops=flops or None),
        conditions=min(known, key=lambda one: one.sm_clock_mhz, default=None),
        ranks=RankTimes(
            collective=collective,
            ranks=tuple(one.recorded for one in ranks),
            skew_us=round(fmean(skews), 6),
            late=any(one.late for one in ranks),
        ),
    )
