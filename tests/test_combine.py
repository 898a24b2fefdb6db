from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpuperf.counters.catalogue import Combining
from pytest_gpuperf.counters.combine import combine, combining_of
from pytest_gpuperf.records import KernelProfile

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping

    from pytest_gpuperf.records import MetricValue


def launches(*metrics: Mapping[str, MetricValue]) -> list[KernelProfile]:
    return [KernelProfile(name="kernel", metrics=dict(row)) for row in metrics]


def test_no_launches_have_no_row() -> None:
    assert combine([]) == {}


def test_single_launch_keeps_its_values() -> None:
    row: dict[str, MetricValue] = {
        "sm_throughput": 70.0,
        "stall.barrier": 3.0,
        "occupancy_limiter": "warps",
        "launch__func_cache_config": "CachePreferNone",
        "dram__bytes.sum.per_second": 1e12,
    }
    assert combine(launches(row)) == {**row, "kernels": 1.0}


def test_counts_and_durations_add() -> None:
    combined = combine(
        launches(
            {"duration_us": 10.0, "dram_bytes": 4096.0, "instructions": 7.0, "grid_size": 64.0},
            {"duration_us": 30.0, "dram_bytes": 1024.0, "instructions": 5.0, "grid_size": 64.0},
        )
    )
    assert combined == {
        "kernels": 2.0,
        "duration_us": 40.0,
        "dram_bytes": 5120.0,
        "instructions": 12.0,
        "grid_size": 128.0,
    }


def test_percentages_are_weighted_by_duration() -> None:
    combined = combine(
        launches(
            {"duration_us": 10.0, "memory_throughput": 20.0, "l2_hit_rate": 100.0},
            {"duration_us": 30.0, "memory_throughput": 80.0, "l2_hit_rate": 0.0},
        )
    )
    assert combined["memory_throughput"] == 65.0  # (10 * 20 + 30 * 80) / 40
    assert combined["l2_hit_rate"] == 25.0


def test_resources_are_the_largest_and_limits_the_smallest() -> None:
    combined = combine(
        launches(
            {
                "registers_per_thread": 32.0,
                "shared_memory_per_block": 1024.0,
                "occupancy_limit.registers": 8.0,
            },
            {
                "registers_per_thread": 168.0,
                "shared_memory_per_block": 512.0,
                "occupancy_limit.registers": 2.0,
            },
        )
    )
    assert combined["registers_per_thread"] == 168.0
    assert combined["shared_memory_per_block"] == 1024.0
    assert combined["occupancy_limit.registers"] == 2.0


def test_theoretical_occupancy_does_not_move_with_the_durations() -> None:
    rows = [{"theoretical_occupancy": 100.0}, {"theoretical_occupancy": 25.0}]
    for first, second in ((1.0, 9.0), (9.0, 1.0)):
        combined = combine(
            launches({**rows[0], "duration_us": first}, {**rows[1], "duration_us": second}),
        )
        assert combined["theoretical_occupancy"] == 25.0


def test_stall_shares_are_weighted_by_warp_cycles() -> None:
    combined = combine(
        launches(
            {
                "duration_us": 1.0,
                "instructions": 100.0,
                "warp_cycles_per_instruction": 10.0,
                "stall.barrier": 30.0,
            },
            {
                "duration_us": 1.0,
                "instructions": 300.0,
                "warp_cycles_per_instruction": 20.0,
                "stall.barrier": 2.0,
            },
        )
    )
    assert combined["stall.barrier"] == pytest.approx(6.0)  # (1000 * 30 + 6000 * 2) / 7000
    assert combined["warp_cycles_per_instruction"] == 17.5  # 7000 / 400


def test_stall_shares_are_weighted_by_duration_where_warp_cycles_are_unknown() -> None:
    combined = combine(
        launches(
            {"duration_us": 10.0, "stall.barrier": 30.0, "instructions": 100.0},
            {"duration_us": 30.0, "stall.barrier": 2.0},
        )
    )
    assert combined["stall.barrier"] == 9.0  # (10 * 30 + 30 * 2) / 40


def test_words_stay_where_equal_and_are_mixed_where_not() -> None:
    equal = combine(launches({"occupancy_limiter": "warps"}, {"occupancy_limiter": "warps"}))
    other = combine(launches({"occupancy_limiter": "warps"}, {"occupancy_limiter": "registers"}))
    assert equal["occupancy_limiter"] == "warps"
    assert other["occupancy_limiter"] == "mixed"


def test_metric_that_one_launch_lacks_is_left_out() -> None:
    combined = combine(launches({"dram_bytes": 1.0, "instructions": 2.0}, {"instructions": 2.0}))
    assert combined == {"kernels": 2.0, "instructions": 4.0}


def test_percentage_without_durations_is_left_out() -> None:
    assert combine(launches({"sm_throughput": 10.0}, {"sm_throughput": 20.0})) == {"kernels": 2.0}


@pytest.mark.parametrize(
    ("name", "combining"),
    [
        ("sm__inst_executed_pipe_fma.sum", Combining.SUM),
        ("gpu__time_duration.sum", Combining.SUM),
        ("launch__grid_size", Combining.SUM),
        ("sm__cycles_active.max", Combining.MAX),
        ("sm__cycles_active.min", Combining.MIN),
        ("lts__t_sector_op_read_hit_rate.pct", Combining.DURATION),
        ("sm__throughput.max.pct_of_peak_sustained_elapsed", Combining.DURATION),
        ("dram__bytes.sum.per_second", Combining.DURATION),
        ("smsp__average_warps_issue_stalled_wait_per_issue_active.ratio", Combining.DURATION),
        ("launch__cluster_size", Combining.MAX),
        ("device__attribute_clock_rate", Combining.SAME),
    ],
)
def test_raw_name_combines_as_its_suffix_says(name: str, combining: Combining) -> None:
    assert combining_of(name) is combining


def test_unknown_numbers_that_differ_are_left_out() -> None:
    name = "smsp__pcsamp_sample_buffer_full"
    assert combine(launches({name: 1.0}, {name: 2.0})) == {"kernels": 2.0}


positive = st.floats(1e-3, 1e9)


@given(st.lists(st.tuples(positive, st.floats(0, 100)), min_size=1))
def test_combined_percentage_lies_between_the_least_and_the_largest(rows: list[tuple[float, float]]) -> None:
    kernels = launches(*({"duration_us": time, "sm_throughput": value} for time, value in rows))
    combined = combine(kernels)["sm_throughput"]
    assert not isinstance(combined, str)
    assert min(value for _, value in rows) <= combined <= max(value for _, value in rows)


@given(st.lists(positive, min_size=1), st.randoms(use_true_random=False))
def test_combined_count_is_the_sum_in_any_order(counts: list[float], order: random.Random) -> None:
    kernels = launches(*({"instructions": count} for count in counts))
    shuffled = list(kernels)
    order.shuffle(shuffled)
    assert combine(kernels) == combine(shuffled)
    assert combine(kernels)["instructions"] == pytest.approx(sum(counts))


@given(st.lists(positive, min_size=2))
def test_launches_that_are_all_alike_combine_to_their_own_percentages(times: list[float]) -> None:
    row: dict[str, MetricValue] = {"sm_throughput": 33.3, "stall.wait": 12.1, "waves": 7.76}
    combined = combine(launches(*({**row, "duration_us": time} for time in times)))
    assert {name: combined[name] for name in row} == row
