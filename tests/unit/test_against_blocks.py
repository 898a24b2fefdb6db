"""Blocks of a restart at one SM clock."""

from __future__ import annotations

import math
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

import pytest

from pytest_gpuperf.against.blocks import (
    QUADS,
    SideBlock,
    at_one_clock,
    in_turn,
    is_precise,
    quad_order,
    ratio,
    with_times,
)

if TYPE_CHECKING:
    from pytest_gpuperf.statistics.sequential import Side

CYCLES = 190_000.0


def restart(
    cycles: dict[str, float],
    mhz: dict[str, float],
    *,
    share: float = 1.0,
    wander: float = 0.01,
    noise: float = 1e-4,
    seed: int = 5,
) -> tuple[SideBlock, ...]:
    """Return blocks whose time depends on the clock by `share`; the clock varies around the side's clock."""
    rng = Random(seed)

    def block(side: Side) -> SideBlock:
        clock = mhz[side] * math.exp(rng.gauss(0, wander))
        time_us = cycles[side] / 1900 * (1900 / clock) ** share * math.exp(rng.gauss(0, noise))
        return SideBlock(side, time_us, clock)

    return in_turn(block, Random(1), 0.0)


def ratios(blocks: tuple[SideBlock, ...]) -> tuple[float, float]:
    """Return the measured ratio, and the ratio at one clock."""
    logs = [math.log(block.time_us) for block in blocks]
    return ratio(blocks, logs), ratio(blocks, at_one_clock(blocks, logs))


def test_quads_of_both_kinds_come_equally_often_in_random_order() -> None:
    orders = [quad_order(Random(seed), 8) for seed in range(20)]
    assert len(set(map(tuple, orders))) > 10
    assert {order.count(quad) for order in orders for quad in QUADS} == {4}
    assert {quad_order(Random(seed), 1)[0] for seed in range(20)} == set(QUADS)


def test_drift_and_a_disturbed_block_do_not_show_in_the_ratio() -> None:
    sides = [side for quad in quad_order(Random(1), 10) for side in quad]
    blocks = [SideBlock(side, 1.0, 0.0) for side in sides]
    slower = [math.log(1.02) * (side == "B") for side in sides]
    disturbed = [9.0 if at == 6 else log for at, log in enumerate(slower)]
    drifting = [3.0 + 0.01 * at + log for at, log in enumerate(slower)]
    for logs in (slower, disturbed, drifting):
        assert ratio(blocks, logs) == pytest.approx(math.log(1.02))


def test_varying_clock_is_removed_from_times_of_arithmetic() -> None:
    same = dict.fromkeys("AB", CYCLES)
    raw, at_one = ratios(restart(same, dict.fromkeys("AB", 1900.0)))
    assert abs(at_one) < 2e-4 < abs(raw)


def test_slowdown_with_a_lower_clock_stays_a_slowdown() -> None:
    slower = {"A": CYCLES, "B": 1.01 * CYCLES}
    raw, at_one = ratios(restart(slower, {"A": 1900.0, "B": 1880.0}))
    assert raw == pytest.approx(math.log(1.01 * 1900 / 1880), abs=0.015)
    assert at_one == pytest.approx(math.log(1.01), abs=4e-4)


def test_times_of_a_copy_are_not_corrected() -> None:
    same = dict.fromkeys("AB", CYCLES)
    raw, at_one = ratios(restart(same, {"A": 1900.0, "B": 1700.0}, share=0.0))
    assert at_one == pytest.approx(raw, abs=4e-4)


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_constant_clock_changes_nothing(share: float) -> None:
    slower = {"A": CYCLES, "B": 1.02 * CYCLES}
    raw, at_one = ratios(restart(slower, dict.fromkeys("AB", 1980.0), share=share, wander=1e-5))
    assert at_one == pytest.approx(raw, abs=2e-5)


def test_without_a_clock_times_are_as_measured() -> None:
    quad: tuple[Side, ...] = ("A", "B", "B", "A")
    blocks = [SideBlock(side, time_us, 0.0) for side, time_us in zip(quad, (1, 2, 3, 4), strict=True)]
    assert at_one_clock(blocks, [1.0, 2.0, 3.0, 4.0]) == [1.0, 2.0, 3.0, 4.0]


def test_noise_does_not_shrink_a_memory_bound_slowdown() -> None:
    """Check two clocks: a slope of pure noise would shrink the slowdown."""
    slower, clocks = {"A": CYCLES, "B": 1.01 * CYCLES}, {"A": 1900.0, "B": 1843.0}
    found = [
        ratios(restart(slower, clocks, share=0.0, wander=0.001, noise=0.003, seed=seed))[1]
        for seed in range(200, 600)
    ]
    assert sum(found) / len(found) == pytest.approx(math.log(1.01), abs=4e-4)


def test_quads_without_a_time_are_left_out() -> None:
    blocks = restart({"A": CYCLES, "B": CYCLES}, {"A": 1900.0, "B": 1900.0})
    lost = replace(blocks[5], time_us=-0.1)
    assert with_times((*blocks[:5], lost, *blocks[6:])) == (*blocks[:4], *blocks[8:])


def test_more_than_half_of_the_quads_need_times() -> None:
    quad = [SideBlock(side, 10.0, 0.0) for side in ("A", "B", "B", "A")]
    lost = [replace(quad[0], time_us=0.0), *quad[1:]]
    assert with_times([*quad, *lost, *quad]) == (*quad, *quad)
    assert with_times([*quad, *lost]) == ()


@pytest.mark.parametrize(("noise", "precise"), [(1.001, True), (1.003, False)])
def test_one_disturbed_quad_keeps_no_ratio_from_being_precise(noise: float, precise: bool) -> None:
    times = [[10.0, new, new, 10.0] for new in (10.1, 10.1 * noise, 10.1, 10.1 * noise, 15.0)]
    sides: list[Side] = ["A", "B", "B", "A"]
    blocks = [SideBlock(side, time, 0.0) for quad in times for side, time in zip(sides, quad, strict=True)]
    assert is_precise(blocks) is precise
