"""Records of calls on several GPUs: bandwidths by nccl-tests' formulas, and the ranks as one."""

from __future__ import annotations

from typing import get_args

import msgspec
import pytest

from pytest_gpuperf.features.ranks.messages import TimesOfRank
from pytest_gpuperf.features.ranks.results import correctness_of, timing_of
from pytest_gpuperf.records import Conditions, Correctness
from pytest_gpuperf.records.ranks import BUS_FACTORS, Collective, RankTime, RankTimes
from run_builders import timing


def of_ranks(collective: Collective, *times_us: float) -> RankTimes:
    return RankTimes(collective=collective, ranks=tuple(RankTime(time_us=time_us) for time_us in times_us))


# PERFORMANCE.md of nccl-tests, for 8 ranks.
@pytest.mark.parametrize(
    ("collective", "factor"),
    [
        ("all_reduce", 14 / 8),
        ("all_gather", 7 / 8),
        ("reduce_scatter", 7 / 8),
        ("all_to_all", 7 / 8),
        ("broadcast", 1.0),
        ("", None),
    ],
)
def test_bus_bandwidth_of_eight_ranks(collective: Collective, factor: float | None) -> None:
    call = msgspec.structs.replace(timing(1000.0, bytes=10**9), ranks=of_ranks(collective, *[1000.0] * 8))
    assert call.gb_per_s == 1000
    assert call.bus_gb_per_s == (None if factor is None else pytest.approx(1000 * factor))


def test_every_collective_has_a_formula() -> None:
    assert {*BUS_FACTORS, ""} == set(get_args(Collective))


def test_bus_bandwidth_needs_a_size() -> None:
    assert msgspec.structs.replace(timing(), ranks=of_ranks("all_reduce", 1.0, 2.0)).bus_gb_per_s is None


def test_a_call_on_one_gpu_has_no_values_of_ranks() -> None:
    assert (timing(bytes=1).bus_gb_per_s, timing().skew_us, timing().exposed_us) == (None, None, None)


def test_spread_over_the_ranks() -> None:
    ranks = of_ranks("", 3.0, 1.0, 8.0)
    assert (ranks.smallest_us, ranks.median_us, ranks.largest_us) == (1.0, 3.0, 8.0)


def test_exposed_communication_is_that_of_the_worst_rank() -> None:
    one = RankTime(time_us=9.0, gpu_busy_us=8.0, communication_us=5.0, exposed_us=2.0)
    two = msgspec.structs.replace(one, exposed_us=4.0)
    assert RankTimes(ranks=(one, two)).exposed_us == 4.0
    assert of_ranks("", 1.0, 2.0).exposed_us is None


def answers(*blocks: list[list[float]], late: bool = False) -> list[TimesOfRank]:
    return [TimesOfRank(one, late=late, recorded=RankTime(time_us=one[0][0])) for one in blocks]


def test_a_call_takes_as_long_as_its_slowest_rank() -> None:
    # The ranks take turns: the mean of each is 15 µs, and that of the calls 20 µs.
    both = answers([[10.0, 20.0]] * 3, [[20.0, 10.0]] * 3, late=True)
    found = timing_of(both, on_gpu=True, collective="all_reduce", bytes=10, flops=5)
    assert (found.time_us, found.blocks_us, found.calls_per_block) == (20.0, (20.0,) * 3, 2)
    assert (found.mode, found.source, found.events_us, found.bytes, found.flops) == (
        "queued",
        "events",
        20.0,
        10,
        5,
    )
    assert found.skew_us == 10.0
    assert found.ranks is not None
    assert found.ranks.late


def test_conditions_are_those_of_the_slowest_clock() -> None:
    both = [
        TimesOfRank(
            [[1.0]], late=False, recorded=RankTime(time_us=1.0), conditions=Conditions(sm_clock_mhz=mhz)
        )
        for mhz in (1980, 1500)
    ]
    found = timing_of(both, on_gpu=True, collective="", bytes=0, flops=0).conditions
    assert found == Conditions(sm_clock_mhz=1500)


def test_the_check_of_all_ranks() -> None:
    right = Correctness(passed=True, elements=10, max_abs_diff=0.1)
    other = Correctness(passed=True, elements=10, max_abs_diff=0.3)
    wrong = Correctness(passed=False, elements=10, mismatched=2, failure="output differs")
    both = correctness_of([right, other])
    assert (both.passed, both.elements, both.max_abs_diff, both.failure) == (True, 20, 0.3, "")
    found = correctness_of([right, wrong])
    assert (found.passed, found.mismatched, found.failure) == (False, 2, "rank 1 of 2: output differs")
