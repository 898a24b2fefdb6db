"""True durations next to blocks of the timer."""

from __future__ import annotations

import pytest

from benchmarks.true_duration import Reading, busy_us, paired


def test_overlaps_count_once_and_gaps_not_at_all() -> None:
    assert busy_us([(0.0, 5.0), (3.0, 4.0), (4.0, 8.0), (20.0, 21.0)]) == 9.0


def test_pairs_are_compared_within_their_round() -> None:
    blocks = [Reading(10.0, 1900.0), Reading(20.0, 1000.0), Reading(11.0, 1800.0)]
    true = [Reading(9.0, 1900.0), Reading(19.0, 1000.0), Reading(12.0, 1800.0)]
    found = paired(blocks, true)
    assert found.ratio == pytest.approx(20 / 19)
    assert found.true_us == 12.0
    assert (found.block_mhz, found.true_mhz) == pytest.approx((1566.67, 1566.67), abs=0.01)


def test_blocks_at_another_clock_are_brought_to_one() -> None:
    found = paired([Reading(10.0, 1600.0)], [Reading(8.0, 2000.0)], lambda clock: 16_000 / clock)
    assert found.ratio == pytest.approx(1.0)
