from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpuperf.features.ncu.common_weights import combine_both, weights_used
from pytest_gpuperf.features.ncu.report_file import read_report
from pytest_gpuperf.metrics import METRICS, Combining
from pytest_gpuperf.metrics.combination import combine, combining_of, weight_names, weights_to_ask_for
from pytest_gpuperf.metrics.roofline import CEILINGS
from pytest_gpuperf.records import KernelProfile
from pytest_gpuperf.records.run import STATIC_SOURCE
from pytest_gpuperf.records.run_store import load_run
from run_builders import launches

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping

    from pytest_gpuperf.records import MetricValue

ROOT = Path(__file__).parents[3]
CAPTURES = ROOT / "tests" / "data" / "captures"
COMBINED = json.loads((CAPTURES / "combined.json").read_text())


def weighted(*rows: tuple[Mapping[str, MetricValue], Mapping[str, MetricValue]]) -> list[KernelProfile]:
    """Return launches with metrics and the raw values that weight them."""
    return [KernelProfile(name="k", metrics=dict(row), weights=dict(weights)) for row, weights in rows]


ACTIVE, SECTORS = "sm__cycles_active.sum", "lts__t_sectors.sum"
ISSUED, CYCLES = "smsp__inst_issued.sum", "sm__cycles_active.avg"
REQUESTS = "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"
PER_REQUEST = "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio"
WAIT = "smsp__average_warps_issue_stalled_wait_per_issue_active.ratio"


@pytest.mark.parametrize(
    ("name", "values", "weights", "expected", "used"),
    [
        # Both took the same time, the second at a higher clock: 500 of 1000 cycles and 300 of 3000.
        ("achieved_occupancy", (50.0, 10.0), ({ACTIVE: 1000.0}, {ACTIVE: 3000.0}), 20.0, "cycles"),
        # Mean cycles replace a missing total: (30 * 100 + 90 * 200) / 300.
        ("tensor_active", (30.0, 90.0), ({ACTIVE: 7.0, CYCLES: 100.0}, {CYCLES: 200.0}), 70.0, "cycles"),
        # 90 hits of 100 sectors and 100 of 900: 190 of 1000.
        ("l2_hit_rate", (90.0, 100 / 9), ({SECTORS: 100.0}, {SECTORS: 900.0}), 19.0, "sectors"),
        (PER_REQUEST, (4.0, 16.0), ({REQUESTS: 10.0}, {REQUESTS: 20.0}), 12.0, "requests"),
        (WAIT, (2.0, 6.0), ({ISSUED: 100.0}, {ISSUED: 300.0}), 5.0, "instructions"),
    ],
)
def test_means_are_weighted_by_what_they_are_shares_of(
    name: str,
    values: tuple[float, float],
    weights: tuple[dict[str, MetricValue], dict[str, MetricValue]],
    expected: float,
    used: str,
) -> None:
    metrics = [{"duration_us": 1.0, name: value} for value in values]
    kernels = weighted(*zip(metrics, weights, strict=True))
    combined = combine(kernels)
    assert combined[name] == pytest.approx(expected)
    assert weights_used(kernels, combined) == {name: used}
    assert not combined.keys() & weights[0].keys()


@pytest.mark.parametrize(
    ("name", "values", "durations", "expected"),
    [
        ("duration_us", (10.0, 30.0), (10.0, 30.0), 40.0),
        ("grid_size", (64.0, 64.0), (1.0, 9.0), 128.0),
        ("registers_per_thread", (32.0, 168.0), (9.0, 1.0), 168.0),
        ("occupancy_limit.registers", (8.0, 2.0), (9.0, 1.0), 2.0),
        ("theoretical_occupancy", (100.0, 25.0), (9.0, 1.0), 25.0),
        # Without cycles, sectors or warp cycles, by duration.
        ("memory_throughput", (20.0, 80.0), (10.0, 30.0), 65.0),
        ("l2_hit_rate", (100.0, 0.0), (10.0, 30.0), 25.0),
        ("stall.barrier", (30.0, 2.0), (10.0, 30.0), 9.0),
        ("dram__bytes.sum.per_second", (100.0, 20.0), (10.0, 30.0), 40.0),
        # 4 schedulers with 100 instructions in all, then with 60: 160 in all, 40 each.
        ("smsp__inst_executed.avg", (25.0, 15.0), (1.0, 9.0), 40.0),
    ],
)
def test_launches_without_weights_combine_by_kind(
    name: str, values: tuple[float, float], durations: tuple[float, float], expected: float
) -> None:
    rows = ({"duration_us": us, name: value} for us, value in zip(durations, values, strict=True))
    assert combine(launches(*rows))[name] == expected


def test_l1_sectors_are_summed_over_all_paths() -> None:
    ways = [name for name in weight_names(METRICS) if name.startswith("l1tex__t_sectors_pipe")]
    assert len(ways) == 11
    sectors: dict[str, MetricValue] = dict.fromkeys(ways, 0.0)
    ld, st = (f"l1tex__t_sectors_pipe_lsu_mem_global_op_{op}.sum" for op in ("ld", "st"))
    kernels = weighted(
        ({"l1_hit_rate": 50.0, "duration_us": 1.0}, {**sectors, ld: 60.0, st: 40.0}),
        ({"l1_hit_rate": 10.0, "duration_us": 1.0}, {**sectors, ld: 300.0}),
    )
    assert combine(kernels)["l1_hit_rate"] == 20.0  # (50 + 30) of (100 + 300)


def test_hit_rates_without_sectors_are_weighted_by_duration() -> None:
    kernels = weighted(
        ({"duration_us": 1.0, "l2_hit_rate": 0.0}, {"lts__t_sectors.sum": 0.0}),
        ({"duration_us": 3.0, "l2_hit_rate": 100.0}, {"lts__t_sectors.sum": 0.0}),
    )
    assert combine(kernels)["l2_hit_rate"] == 75.0


def test_issue_cycles_replace_issued_instructions() -> None:
    # 0.5 * 200 = 100 instructions of 8 cycles and 0.25 * 1200 = 300 of 24: 800 and 7200 cycles.
    active, cycles = "smsp__issue_active.avg.per_cycle_active", "smsp__cycles_active.sum"
    kernels = weighted(
        (
            {"duration_us": 1.0, "warp_cycles_per_instruction": 8.0, "stall.wait": 50.0},
            {active: 0.5, cycles: 200.0},
        ),
        (
            {"duration_us": 1.0, "warp_cycles_per_instruction": 24.0, "stall.wait": 10.0},
            {active: 0.25, cycles: 1200.0},
        ),
    )
    combined = combine(kernels)
    assert combined["warp_cycles_per_instruction"] == 20.0  # 8000 / 400
    assert combined["stall.wait"] == 14.0  # (400 + 720) / 8000
    used = {
        "warp_cycles_per_instruction": "instructions",
        "stall.wait": "instructions * warp_cycles_per_instruction",
    }
    assert weights_used(kernels, combined) == used


def test_words_and_equal_values_have_no_weight() -> None:
    row: dict[str, MetricValue] = {"duration_us": 1.0, "sm_throughput": 5.0, "occupancy_limiter": "warps"}
    assert weights_used(launches(row, row), row) == {}
    assert weights_used([], row) == {}


def test_mean_of_several_raw_names_has_a_weight() -> None:
    means = [metric for metric in METRICS.values() if metric.combining is Combining.MEAN]
    derived = [metric for metric in means if not metric.ncu]
    assert {"bank_conflict_pct", "stall.barrier"} <= {metric.name for metric in derived}
    assert [metric.name for metric in derived if not metric.weight] == []


def test_weights_are_short_names_of_metrics_that_every_launch_has() -> None:
    for metric in METRICS.values():
        assert set(metric.weight) <= set(METRICS)
        assert all(metric.chips <= METRICS[name].chips for name in metric.weight)
        assert metric.combining is Combining.MEAN or not metric.weight


@pytest.mark.parametrize("name", sorted(COMBINED))
def test_captures_combine_to_known_values(name: str) -> None:
    """Check values that commit c3abdf6 computed, which kept the weights apart from the metrics."""
    if ".ncu-rep" in name:
        pytest.importorskip("ncu_report")
    later = {"dram_gb_per_s", "local_spill_requests", *(metric.name for metric in CEILINGS)}
    combined = combine(read_report(CAPTURES / name))
    assert {metric: value for metric, value in combined.items() if metric not in later} == COMBINED[name]


def test_recorded_profiles_combine_to_their_recorded_rows() -> None:
    runs = [load_run(path) for path in (ROOT / "baselines").glob("*/recordings/*.json")]
    tests = [test for run in runs for test in run.tests]
    found = [one.profile for test in tests for one in test.measurements.values() if one.profile is not None]
    profiles = [profile for profile in found if profile.source != STATIC_SOURCE]
    assert any(len(profile.kernels) > 1 for profile in profiles)
    for profile in profiles:
        assert combine(profile.kernels) == profile.combined


positive = st.floats(1e-3, 1e9)


@given(st.lists(st.tuples(positive, st.floats(0, 100)), min_size=1))
def test_combined_percentage_is_between_minimum_and_maximum(rows: list[tuple[float, float]]) -> None:
    kernels = launches(*({"duration_us": time, "sm_throughput": value} for time, value in rows))
    combined = combine(kernels)["sm_throughput"]
    assert not isinstance(combined, str)
    assert min(value for _, value in rows) <= combined <= max(value for _, value in rows)


def launches_of(least: int, most: int | None = None) -> st.SearchStrategy[list[KernelProfile]]:
    """Draw launches of one file: all have the same metrics and weights, none of them negative."""
    names = [name for name in METRICS if name not in ("kernels", "occupancy_limiter")]
    names += ["dram__bytes_read.sum", "sm__cycles_active.max"]
    names += ["smsp__inst_executed.avg", "launch__cluster_size"]

    def with_names(chosen: tuple[set[str], set[str]]) -> st.SearchStrategy[list[KernelProfile]]:
        metrics, weights = (st.fixed_dictionaries(dict.fromkeys(sorted(some), positive)) for some in chosen)
        one = st.builds(KernelProfile, name=st.just("k"), metrics=metrics, weights=weights)
        return st.lists(one, min_size=least, max_size=most)

    return st.tuples(
        st.sets(st.sampled_from(names), min_size=1), st.sets(st.sampled_from(weight_names(METRICS)))
    ).flatmap(with_names)


@given(launches_of(1, 1))
def test_one_launch_stays_and_two_equal_ones_double_the_counts(kernels: list[KernelProfile]) -> None:
    once = combine(kernels)
    assert once == {**kernels[0].metrics, "kernels": 1.0}
    for name, value in combine(kernels * 2).items():
        expected = once[name]
        assert not isinstance(expected, str)
        assert value == (2 * expected if combining_of(name) is Combining.SUM else expected)


@given(launches_of(2), st.randoms(use_true_random=False))
def test_order_of_launches_does_not_matter(kernels: list[KernelProfile], order: random.Random) -> None:
    shuffled = list(kernels)
    order.shuffle(shuffled)
    assert combine(shuffled) == combine(kernels)
    assert weights_used(shuffled, METRICS) == weights_used(kernels, METRICS)


@pytest.mark.parametrize(
    ("names", "asked"),
    [
        (["stall.barrier"], ("smsp__inst_issued.sum", "warp_cycles_per_instruction", "duration_us")),
        (["l2_hit_rate"], ("lts__t_sectors.sum", "duration_us")),
        (["sm_throughput", "l2_hit_rate"], ("sm__cycles_elapsed.sum", "duration_us", "lts__t_sectors.sum")),
        (["dram_bytes"], ()),
    ],
)
def test_only_the_best_weight_and_duration_are_asked_for(names: list[str], asked: tuple[str, ...]) -> None:
    assert weights_to_ask_for(names) == asked
    assert set(asked) <= set(weight_names(names))


def test_means_with_different_weights_are_not_compared() -> None:
    """Check a CSV without the cycles of the ncu report: its mean is weighted by duration."""

    def of(**weights: float) -> list[KernelProfile]:
        return [
            KernelProfile(
                name="k",
                metrics={"sm_throughput": percent, "duration_us": us},
                weights={name: value * us for name, value in weights.items()},
            )
            for percent, us in ((10.0, 1.0), (40.0, 3.0))
        ]

    by_cycles = of(**dict.fromkeys(weight_names(["sm_throughput"]), 2.0))
    by_duration = of()
    old, new = combine_both(by_cycles, by_duration)
    assert "sm_throughput" not in {*old, *new}
    assert old["duration_us"] == new["duration_us"] == 4
    old, new = combine_both(by_duration, by_duration)
    assert old["sm_throughput"] == new["sm_throughput"] == pytest.approx(32.5)
