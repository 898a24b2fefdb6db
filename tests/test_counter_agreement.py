"""The benchmark of CUPTI's counters beside ncu's."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from benchmarks.counter_agreement.agreement import COMPUTE_BOUND, contradictions, differences, dram_bytes
from benchmarks.counter_agreement.results import (
    LEAST_BYTES,
    SCHEMA,
    Agreement,
    Reading,
    Results,
    read,
)
from benchmarks.counter_agreement.tables import agreement_table, cost, source, traffic_table
from benchmarks.results_file import encode
from pytest_gpuperf.errors import GpuperfError
from run_builders import run

RECORDED = Path(__file__).parent.parent / "benchmarks" / "results" / "counter_agreement.json"


def reading(**metrics: float) -> Reading:
    shown = {name.replace("stall_", "stall."): value for name, value in metrics.items()}
    return Reading(name="k", grid=(1, 1, 1), block=(32, 1, 1), metrics={"elapsed_cycles": 1000.0, **shown})


def call(cupti: list[Reading], ncu: list[Reading]) -> Agreement:
    return Agreement(cupti=tuple(cupti), ncu=tuple(ncu), cupti_seconds=(1.5, 0.25, 0.35, 0.27))


def results(found: Agreement, **facts: float) -> Results:
    environment = run().environment
    return Results(
        schema=SCHEMA, date="2026-11-21", environment=environment, calls={"square_torch": found}, **facts
    )


def unlike(found: Agreement, *metrics: str) -> list[str]:
    return [str(difference) for difference in differences(found, metrics) if not difference.same]


def test_repeats_of_both_that_come_within_two_per_cent_agree() -> None:
    found = call([reading(instructions=100), reading(instructions=90)], [reading(instructions=102)])
    assert unlike(found, "instructions") == []
    found = call([reading(instructions=99), reading(instructions=90)], [reading(instructions=102)])
    assert unlike(found, "instructions") == ["instructions: 99 and 90 by CUPTI, 102 by ncu"]


def test_half_a_point_is_nothing_in_a_percentage() -> None:
    assert unlike(call([reading(sm_throughput=1.0)], [reading(sm_throughput=1.5)]), "sm_throughput") == []
    assert unlike(call([reading(sm_throughput=1.0)], [reading(sm_throughput=1.6)]), "sm_throughput") != []


def test_only_stalls_of_a_share_that_matters_are_compared() -> None:
    found = call([reading(stall_wait=4.9, stall_barrier=9)], [reading(stall_wait=1.0, stall_barrier=7)])
    assert unlike(found, "stalls") == ["stall.barrier: 9 by CUPTI, 7 by ncu"]


def test_the_same_work_over_more_cycles_is_the_same_work() -> None:
    slow, fast = (reading(sm_throughput=at, elapsed_cycles=over) for at, over in ((50, 1200), (60, 1000)))
    found = call([slow], [fast])
    assert unlike(found, "sm_throughput * elapsed_cycles") == []
    assert unlike(found, "sm_throughput") != []


def test_no_value_of_cuptis_is_the_zero_of_ncu_and_no_other_value() -> None:
    assert unlike(call([reading()], [reading(tensor_active=0)]), "tensor_active") == []
    assert unlike(call([reading()], [reading(tensor_active=30)]), "tensor_active") != []


def test_the_tables_name_what_differs_and_what_was_not_taken() -> None:
    found = call([reading(duration_us=11, dram_bytes=2e6)], [reading(duration_us=10, dram_bytes=3e6)])
    assert "| `duration_us` | 0 of 1 | 0 | square_torch: 11, 10 |" in agreement_table(results(found))
    row = traffic_table(results(found)).splitlines()[-1]
    assert row == "| square_torch | 268.4 | 2.0 | 3.0 | 11.00 | 10.00 | 1.50, 0.25, 0.35, 0.27 |"
    assert cost(results(found)).endswith(
        " of its call: 0.27 s (0.25 to 0.35). What ncu costs was not taken.\n"
    )
    timed = results(found, ncu_seconds=12.0, plain_seconds=8.0)
    assert cost(timed).endswith("ncu: 4.0 s more than without it, 4.00 s for each of 1.\n")


def test_a_call_that_failed_has_a_row_without_values() -> None:
    row = traffic_table(results(Agreement(failure="exit status 1"))).splitlines()[-1]
    assert row == "| square_torch | 268.4 | — | — | — | — | — |"


@pytest.mark.parametrize("name", LEAST_BYTES)
def test_the_recorded_kernels_agree_where_they_have_to(name: str) -> None:
    assert [str(each) for each in contradictions(name, read(RECORDED).calls[name])] == []


@pytest.mark.parametrize("name", ["square_torch", "square_triton", "softmax", "entropy"])
def test_what_was_recorded_streams_what_it_has_to(name: str) -> None:
    moved = dram_bytes(read(RECORDED).calls[name].cupti)
    assert moved == pytest.approx((LEAST_BYTES[name],) * 3, rel=0.03)


def test_the_source_names_gpu_and_tool() -> None:
    said = source(read(RECORDED))
    assert said.startswith("NVIDIA H200, driver 580.159.04, ")
    assert said.endswith(
        "commit 5ba2459, 2026-11-21, ncu 2025.3.1.0 with `--cache-control none --clock-control none`.\n"
    )


def test_time_is_compared_where_nothing_waits_for_dram() -> None:
    slow = call([reading(duration_us=11)], [reading(duration_us=10)])
    found = contradictions(COMPUTE_BOUND[0], slow)
    assert [str(each) for each in found] == ["duration_us: 11 by CUPTI, 10 by ncu"]
    assert contradictions("square_torch", slow) == []


def test_constants_may_come_late_only_where_the_input_does() -> None:
    found = call(
        [reading(stall_imc_miss=3, stall_barrier=9)],
        [reading(stall_imc_miss=12, stall_barrier=7)],
    )
    metrics = [[each.metric for each in contradictions(name, found)] for name in ("square_small", "softmax")]
    assert metrics == [["stall.barrier"], ["stall.imc_miss", "stall.barrier"]]


def test_results_of_a_newer_schema_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    found = results(call([reading()], [reading()]))
    path.write_bytes(encode(found))
    assert read(path) == found
    path.write_bytes(encode(msgspec.structs.replace(found, schema=SCHEMA + 1)))
    with pytest.raises(GpuperfError, match="newer"):
        read(path)
