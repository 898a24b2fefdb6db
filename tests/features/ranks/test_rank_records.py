"""Records of calls on several GPUs: bandwidths by nccl-tests' formulas, and the ranks as one."""

from __future__ import annotations

import msgspec
import pytest

from present import present
from pytest_gpuperf.features.ranks.aggregation import correctness_of, timing_of
from pytest_gpuperf.features.ranks.messages import TimesOfRank
from pytest_gpuperf.records import Correctness
from pytest_gpuperf.records.ranks import Collective, RankTime, RankTimes
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
    assert (found.mode, found.source, found.us_by("events")) == ("queued", "events", 20.0)
    assert (found.bytes, found.flops) == (10, 5)
    assert found.skew_us == 10.0
    assert present(found.ranks).late


def test_the_check_of_all_ranks() -> None:
    right = Correctness(passed=True, elements=10, max_abs_diff=0.1)
    other = Correctness(passed=True, elements=10, max_abs_diff=0.3)
    wrong = Correctness(passed=False, elements=10, mismatched=2, failure="output differs")
    both = correctness_of([right, other])
    assert (both.passed, both.elements, both.max_abs_diff, both.failure) == (True, 20, 0.3, "")
    found = correctness_of([right, wrong])
    assert (found.passed, found.mismatched, found.failure) == (False, 2, "rank 1 of 2: output differs")
