"""Thresholds of the rules of `gpuperf explain`: at the bound, and just beyond it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_gpuperf.judge.explain import causes, diagnose

if TYPE_CHECKING:
    from collections.abc import Mapping

LOW = {"sm_throughput": 30.0, "memory_throughput": 40.0, "waves": 8.0}
"""A kernel with enough blocks in which nothing is busy."""
CALL = {"gpu_busy": 50.0, "launches": 4.0, "launch_gap": 3.0, "gpu_time_us": 10.0}


def line(code: str, metrics: Mapping[str, float]) -> str:
    """Return the line of a rule; empty if it is silent."""
    found = diagnose(metrics)
    return next((one.line for one in found if one.code == code), "")


@pytest.mark.parametrize(
    ("code", "metrics", "at", "beyond"),
    [
        ("compute-bound", {"memory_throughput": 50.0}, {"sm_throughput": 60.0}, {"sm_throughput": 59.9}),
        ("compute-bound", {"sm_throughput": 70.0}, {"memory_throughput": 70.0}, {"memory_throughput": 70.1}),
        ("memory-bound", {"sm_throughput": 50.0}, {"memory_throughput": 60.0}, {"memory_throughput": 59.9}),
        ("memory-bound", {"memory_throughput": 70.0}, {"sm_throughput": 69.9}, {"sm_throughput": 70.0}),
        ("memory-bound", LOW, {"l2_throughput": 80.0}, {"l2_throughput": 79.9}),
        ("latency-bound", LOW, {"memory_throughput": 59.9}, {"memory_throughput": 60.0}),
        ("latency-bound", LOW, {"waves": 1.0}, {"waves": 0.99}),
        ("too-small-grid", LOW, {"waves": 0.99}, {"waves": 1.0}),
        ("too-small-grid", {**LOW, "waves": 0.5}, {"sm_throughput": 59.9}, {"sm_throughput": 60.0}),
        ("occupancy-limited", LOW, {"theoretical_occupancy": 49.9}, {"theoretical_occupancy": 50.0}),
        (
            "occupancy-limited",
            {**LOW, "theoretical_occupancy": 49.0},
            {"memory_throughput": 59.9},
            {"memory_throughput": 60.0},
        ),
        ("occupancy-limited", {**LOW, "theoretical_occupancy": 49.0}, {"waves": 1.0}, {"waves": 0.99}),
        (
            "occupancy-limited",
            {**LOW, "theoretical_occupancy": 100.0},
            {"achieved_occupancy": 49.9},
            {"achieved_occupancy": 50.0},
        ),
        (
            "occupancy-limited",
            {**LOW, "theoretical_occupancy": 50.0},
            {"achieved_occupancy": 44.9},
            {"achieved_occupancy": 45.0},
        ),
        ("launch-bound", {}, {"duration_us": 4.9}, {"duration_us": 5.0}),
        ("launch-bound", CALL, {"gpu_busy": 69.9}, {"gpu_busy": 70.0}),
        ("launch-bound", CALL, {"launches": 2.0}, {"launches": 1.0}),
        (
            "spilling",
            {"instructions": 100.0},
            {"local_spill_instructions": 5.0},
            {"local_spill_instructions": 4.9},
        ),
    ],
    ids=str,
)
def test_rule_holds_up_to_its_threshold(
    code: str, metrics: dict[str, float], at: dict[str, float], beyond: dict[str, float]
) -> None:
    assert line(code, {**metrics, **at})
    assert line(code, {**metrics, **beyond}) == ""


@pytest.mark.parametrize("missing", CALL)
def test_call_that_lacks_a_value_is_not_diagnosed(missing: str) -> None:
    assert line("launch-bound", {name: value for name, value in CALL.items() if name != missing}) == ""
    assert line("launch-bound", {**CALL, "launches": 0.0}) == ""


@pytest.mark.parametrize(
    ("extra", "said", "advice"),
    [
        ({}, "", "one CUDA graph"),
        ({"synchronizations": 1.0}, "; the host waits for the GPU 1 time", "no .item()"),
        ({"synchronizations": 2.0}, "; the host waits for the GPU 2 times", "no .item()"),
        ({"host_launches": 1.0}, "", "fewer and longer kernels"),
        ({"host_launches": 2.0}, "", "one CUDA graph"),
    ],
    ids=str,
)
def test_call_that_waits_for_launches_says_why(extra: dict[str, float], said: str, advice: str) -> None:
    (found,) = diagnose({**CALL, **extra})
    assert found.line == (
        "the GPU is busy 50 % of the call: 4 launches of 2.5 µs on average, "
        f"with 3.0 µs from one to the next{said}"
    )
    assert found.next_step.startswith(advice)


@pytest.mark.parametrize(("pipe", "named"), [(78.0, True), (77.9, False)], ids=str)
def test_pipe_within_ten_points_of_the_throughput_is_named(pipe: float, *, named: bool) -> None:
    said = line("compute-bound", {"sm_throughput": 88.0, "memory_throughput": 20.0, "pipe.fma": pipe})
    assert ("by the FMA pipe (78 %)" in said) is named


def test_rules_without_both_throughputs_are_silent() -> None:
    for missing in ("sm_throughput", "memory_throughput"):
        metrics = {name: 90.0 for name in ("sm_throughput", "memory_throughput") if name != missing}
        assert diagnose(metrics) == ()


@pytest.mark.parametrize(
    ("levels", "said"),
    [
        ({"dram_throughput": 84.0}, "DRAM is at 84 % of its peak"),
        ({"dram_throughput": 83.9, "l2_throughput": 75.0}, "L2 is at 75 % of its peak"),
        ({"dram_throughput": 83.9, "l2_throughput": 74.9}, "L1 and shared memory are at 85 % of their peak"),
        ({"l2_throughput": 75.0}, "L2 is at 75 % of its peak"),
        ({"l2_throughput": 74.9}, "memory is at 85 % of its peak"),
        ({"dram_throughput": 83.9}, "memory is at 85 % of its peak"),
        ({}, "memory is at 85 % of its peak"),
    ],
    ids=str,
)
def test_level_of_memory_that_bounds_is_named(levels: dict[str, float], said: str) -> None:
    assert line("memory-bound", {"sm_throughput": 20.0, "memory_throughput": 85.0, **levels}) == said


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"waves": 0.5}, "its blocks are 50 % of those that the GPU holds at once"),
        ({"waves": 0.5, "grid_size": 1.0}, "one block is 50 % of those that the GPU holds at once"),
        ({"waves": 0.5, "grid_size": 2.0}, "2 blocks are 50 % of those that the GPU holds at once"),
        ({"waves": 0.0005}, "its blocks are 0.1 % of those that the GPU holds at once"),
        (
            {"waves": 0.5, "grid_size": 9.0, "sm_count": 10.0},
            "9 blocks are 50 % of those that the GPU holds at once; 1 of 10 SMs get none",
        ),
        (
            {"waves": 0.5, "grid_size": 10.0, "sm_count": 10.0},
            "10 blocks are 50 % of those that the GPU holds at once",
        ),
    ],
    ids=str,
)
def test_small_grid_says_its_size(values: dict[str, float], said: str) -> None:
    assert line("too-small-grid", {"sm_throughput": 4.0, "memory_throughput": 12.0, **values}) == said


@pytest.mark.parametrize(("waves", "known"), [(0.1, True), (0.099, False)])
def test_sms_are_counted_from_at_least_a_tenth_of_a_wave(waves: float, *, known: bool) -> None:
    fits = {f"occupancy_limit.{k}": 2.0 for k in ("warps", "blocks", "registers")}
    metrics = {"sm_throughput": 4.0, "memory_throughput": 12.0, "waves": waves, "grid_size": 20.0, **fits}
    assert ("of 100 SMs" in line("too-small-grid", {**metrics, "occupancy_limit.shared_mem": 2.0})) is known
    assert "SMs" not in line("too-small-grid", metrics)


@pytest.mark.parametrize(
    ("metrics", "worth"),
    [
        ({"instructions": 1000.0, "registers_per_thread": 255.0}, True),
        ({"instructions": 1001.0, "registers_per_thread": 255.0}, False),
        ({"instructions": 20.0, "registers_per_thread": 254.0}, True),
        ({"instructions": 20.1, "registers_per_thread": 254.0}, False),
        ({"instructions": 20.0}, True),
        ({"instructions": 20.1}, False),
    ],
    ids=str,
)
def test_spills_count_sooner_without_a_register_left(metrics: dict[str, float], *, worth: bool) -> None:
    instructions = metrics["instructions"]
    assert causes._is_worth(1.0, instructions, metrics.get("registers_per_thread")) is worth


@pytest.mark.parametrize(
    ("requests", "registers", "worth"),
    [(1.0, None, True), (1.0, 255.0, True), (999_999.0, 254.0, False), (1e6, 254.0, True)],
)
def test_spills_of_unknown_work_count_if_many(
    requests: float, registers: float | None, *, worth: bool
) -> None:
    assert causes._is_worth(requests, None, registers) is worth


@pytest.mark.parametrize(
    ("number", "shown"),
    [(999_999, "999,999"), (1e6, "1.0 million"), (2.5e6, "2.5 million"), (1e9, "1.0 billion")],
)
def test_large_numbers_are_shown_in_words(number: float, shown: str) -> None:
    assert causes._count(number) == shown


@pytest.mark.parametrize(
    ("code", "reason", "least"),
    [
        ("synchronisation-bound", "barrier", 25),
        ("synchronisation-bound", "membar", 25),
        ("memory-latency", "long_scoreboard", 30),
        ("memory-latency", "tex_throttle", 30),
        ("shared-memory-latency", "mio_throttle", 30),
        ("math-throttled", "math_pipe_throttle", 20),
    ],
)
def test_waiting_counts_in_long_kernels_without_a_busy_unit(code: str, reason: str, least: float) -> None:
    waits = {**LOW, f"stall.{reason}": float(least), "duration_us": 5.0}
    assert line(code, waits)
    for change in ({f"stall.{reason}": least - 0.1}, {"duration_us": 4.9}, {"memory_throughput": 80.0}):
        assert line(code, {**waits, **change}) == ""
    assert line(code, {**waits, "memory_throughput": 79.9})


def test_three_quarters_of_a_sector_are_no_loss() -> None:
    assert line("uncoalesced", {**LOW, "global_load_bytes_per_sector": 24.0}) == ""
    assert line("uncoalesced", {**LOW, "global_load_bytes_per_sector": 23.9})


@pytest.mark.parametrize(
    ("chip", "ways"),
    [
        ("", "copies some stages ahead (cp.async since Ampere, TMA since Hopper)"),
        ("gv100", "loads into registers a step ahead"),
        ("ga100", "copies some stages ahead (cp.async)"),
        ("gh100", "copies some stages ahead (cp.async, TMA)"),
    ],
)
def test_advice_for_latency_fits_the_chip(chip: str, ways: str) -> None:
    waits = {**LOW, "stall.long_scoreboard": 40.0, "duration_us": 50.0}
    found = next(one for one in diagnose(waits, chip=chip) if one.code == "memory-latency")
    assert found.next_step == f"more loads in flight: wider or unrolled loads, {ways}"
