from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpuperf.metrics import (
    METRICS,
    get,
    is_raw_name,
    ncu_metric_names,
    nearest,
    short_metrics,
    source_names,
)
from pytest_gpuperf.metrics.ncu_units import to_base
from pytest_gpuperf.records.run import top_stall


def stall(reason: str) -> str:
    return f"smsp__average_warps_issue_stalled_{reason}_per_issue_active.ratio"


EVERYWHERE = [
    *("barrier", "branch_resolving", "dispatch_stall", "drain", "lg_throttle", "long_scoreboard"),
    *("math_pipe_throttle", "membar", "mio_throttle", "misc", "no_instruction", "not_selected"),
    *("selected", "short_scoreboard", "sleeping", "tex_throttle", "wait"),
]


def limits(
    warps: float, blocks: float, registers: float, shared_mem: float, barriers: float
) -> dict[str, float]:
    return {f"launch__occupancy_limit_{name}": value for name, value in locals().items()}


def test_every_raw_name_of_a_metric_is_requested() -> None:
    names = ncu_metric_names(METRICS)
    assert {metric.ncu for metric in METRICS.values() if metric.ncu} <= set(names)
    assert len(names) == len(set(names))
    assert all(is_raw_name(name) for name in names)


def test_each_chip_has_its_own_raw_names() -> None:
    metric = METRICS["dram_read_bytes"]
    assert metric.requests("gh100") == ("dram__bytes_read.sum",)
    assert metric.requests("gb202") == ("dram__bytes_op_read.sum",)
    assert set(metric.requests()) == {"dram__bytes_read.sum", "dram__bytes_op_read.sum"}


def test_metric_that_a_chip_lacks_is_not_requested() -> None:
    assert ncu_metric_names(["stall.gmma", "stall.imc_miss", "pipe.tma"], "gb202") == (
        "sm__pipe_tma_cycles_active.avg.pct_of_peak_sustained_elapsed",
    )
    assert "gb202" not in METRICS["stall.gmma"].chips
    assert "gb20b" not in METRICS["dram_bytes"].chips


def test_reports_are_read_by_every_spelling() -> None:
    assert {"dram__bytes_read.sum", "dram__bytes_op_read.sum", "dram__bytes.sum"} <= set(source_names())
    assert short_metrics({"dram__bytes_op_read.sum": 5.0}, {}) == {"dram_read_bytes": 5.0}


def test_section_of_every_metric_exists_in_ncu() -> None:
    sections = (Path(__file__).parents[1] / "data" / "captures" / "sections.txt").read_text().split()
    assert {metric.section for metric in METRICS.values()} - {""} <= set(sections)


def test_selected_counts_in_the_whole_but_is_not_a_stall() -> None:
    assert get("stall.selected") is None
    assert stall("selected") in source_names()


def test_word_instead_of_a_number_is_left_out() -> None:
    assert short_metrics({"launch__registers_per_thread": "n/a"}, {}) == {}


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [
        (1.024, "Kbyte/block", (1024.0, "byte/block")),
        (2.5, "Mbyte", (2.5e6, "byte")),
        (3.0, "Gbyte", (3e9, "byte")),
        (3.78, "Tbyte/s", (3.78e12, "byte/s")),
        (1.96, "Ghz", (1.96e9, "hz")),
        (77.0, "%", (77.0, "%")),
        (5.0, "%/Kbyte", (5.0, "%/Kbyte")),
        (2.0, "us", (2e3, "ns")),
        (2.0, "msecond", (2e6, "ns")),
        (1.5, "cycle/nsecond", (1.5e9, "cycle/second")),
        (2.0, "inst/usecond", (2e6, "inst/second")),
        (4.0, "Kbyte/msecond", (4e6, "byte/second")),
    ],
)
def test_scaled_values_return_to_the_base_unit(value: float, unit: str, expected: tuple[float, str]) -> None:
    assert to_base(value, unit) == expected


@pytest.mark.parametrize(
    ("kind", "letter", "operations"), [("fp16", "h", 422), ("fp32", "f", 211), ("fp64", "d", 211)]
)
def test_multiply_add_is_two_operations_and_half_precision_does_two_of_each(
    kind: str, letter: str, operations: int
) -> None:
    counts = {
        f"smsp__sass_thread_inst_executed_op_{letter}{op}_pred_on.sum": count
        for op, count in {"add": 1.0, "mul": 10.0, "fma": 100.0}.items()
    }
    assert short_metrics(counts, {})[f"flops.{kind}"] == operations
    rates = {f"{name}.per_cycle_elapsed": count / 50 for name, count in counts.items()}
    found = short_metrics({**rates, "smsp__cycles_elapsed.avg": 50.0}, {})[f"flops.{kind}"]
    assert found == pytest.approx(operations)


def test_clock_is_cycles_over_time_if_ncu_has_no_rate() -> None:
    time = {"gpu__time_duration.sum": 2000.0}
    assert short_metrics({**time, "gpc__cycles_elapsed.max": 3000.0}, {})["sm_clock_mhz"] == 1500
    assert short_metrics({**time, "sm__cycles_elapsed.max": 3000.0}, {})["sm_clock_mhz"] == 1500
    assert "sm_clock_mhz" not in short_metrics(
        {"gpu__time_duration.sum": 0.0, "sm__cycles_elapsed.max": 3000.0}, {}
    )


def test_rate_of_dram_is_asked_for_as_such() -> None:
    """Reports have its parts, which give the same."""
    assert ncu_metric_names(["dram_gb_per_s"]) == ("dram__bytes.sum.per_second",)
    halves = {"dram__bytes_read.sum": 100.0, "dram__bytes_write.sum": 28.0, "gpu__time_duration.sum": 64.0}
    assert short_metrics(halves, {})["dram_gb_per_s"] == 2


def test_dram_bytes_are_the_sum_of_reads_and_writes() -> None:
    halves = {"dram__bytes_read.sum": 100.0, "dram__bytes_write.sum": 28.0}
    assert short_metrics(halves, {})["dram_bytes"] == 128.0
    assert short_metrics({**halves, "dram__bytes.sum": 130.0}, {})["dram_bytes"] == 130.0


@pytest.mark.parametrize("gh100", [True, False])
def test_chip_specific_reasons_count_if_present(gh100: bool) -> None:
    here = [*EVERYWHERE, "imc_miss", *(["gmma"] if gh100 else [])]
    short = short_metrics(dict.fromkeys(map(stall, here), 1.0), {})
    assert short["stall.imc_miss"] == pytest.approx(100 / len(here))
    assert ("stall.gmma" in short) is gh100


def test_bank_conflicts_are_a_share_of_shared_wavefronts() -> None:
    conflicts = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"
    wavefronts = "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"
    assert short_metrics({conflicts: 30.0, wavefronts: 120.0}, {})["bank_conflict_pct"] == 25.0
    assert "bank_conflict_pct" not in short_metrics({conflicts: 0.0, wavefronts: 0.0}, {})


def test_mean_over_no_accesses_is_left_out() -> None:
    raw = "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio"
    assert short_metrics({raw: 0.0}, {}) == {}


def test_spills_are_loads_and_stores_of_local_memory() -> None:
    load, store = (f"smsp__sass_inst_executed_op_local_{op}.sum" for op in ("ld", "st"))
    assert short_metrics({load: 3.0, store: 4.0}, {}) == {"local_spill_instructions": 7.0}
    assert short_metrics({load: 3.0}, {}) == {}


@pytest.mark.parametrize(
    ("raw", "limiter"),
    [
        (limits(16, 32, 21, 32, 32), "warps"),
        (limits(8, 32, 4, 3, 32), "shared_mem"),
        (limits(8, 32, 2, 2, 32), "registers"),
        (limits(8, 32, 8, 32, 32), "warps"),
        (limits(64, 32, 36, 44, 32), "blocks"),
        (limits(8, 9, 9, 9, 2), "barriers"),
    ],
)
def test_limiter_is_the_smallest_limit_with_hardware_first(raw: dict[str, float], limiter: str) -> None:
    assert short_metrics(raw, {})["occupancy_limiter"] == limiter


def test_stall_is_a_share_of_all_warps_per_issued_instruction() -> None:
    raw = {
        stall("barrier"): 5.0,
        stall("selected"): 1.0,
        "smsp__average_warps_active_per_issue_active.ratio": 20.0,
        "smsp__average_warp_latency_per_inst_issued.ratio": 40.0,
    }
    assert short_metrics(raw, {})["stall.barrier"] == 25.0
    del raw["smsp__average_warps_active_per_issue_active.ratio"]
    assert short_metrics(raw, {})["stall.barrier"] == 12.5


def test_incomplete_stalls_without_a_whole_give_no_shares() -> None:
    assert short_metrics({stall("barrier"): 5.0, stall("long_scoreboard"): 20.0}, {}) == {}


@given(st.lists(st.floats(0, 1e3), min_size=17, max_size=17).filter(lambda values: sum(values) > 1e-3))
def test_shares_of_stalls_and_selected_add_up_to_100(values: list[float]) -> None:
    raw = dict(zip(map(stall, EVERYWHERE), values, strict=True))
    shares = [value for value in short_metrics(raw, {}).values() if not isinstance(value, str)]
    assert sum(shares) + 100 * raw[stall("selected")] / sum(values) == pytest.approx(100)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("memory_througput", "memory_throughput"),
        ("occupancy", "achieved_occupancy"),
        ("long_scoreboard", "stall.long_scoreboard"),
        ("stall.barier", "stall.barrier"),
        ("registers", "registers_per_thread"),
    ],
)
def test_misspelled_name_suggests_the_right_one(written: str, meant: str) -> None:
    assert meant in nearest(written)


def test_raw_names_of_the_chip_are_suggested() -> None:
    assert nearest("dram__byte.sum", ["dram__bytes.sum", "lts__t_bytes.sum"])[0] == "dram__bytes.sum"
    assert nearest("qqqq") == []


def test_top_stall_is_the_largest_share() -> None:
    metrics = {"stall.barrier": 12.0, "stall.long_scoreboard": 48.0, "sm_throughput": 90.0}
    assert top_stall(metrics) == ("stall.long_scoreboard", 48.0)
    assert top_stall({"sm_throughput": 90.0}) is None
