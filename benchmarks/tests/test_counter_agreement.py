"""Tests of the benchmark of counters by CUPTI and ncu."""

from __future__ import annotations

from pathlib import Path
from statistics import median

import msgspec
import pytest

from benchmarks.counter_agreement.agreement import (
    COMPARED,
    COMPUTE_BOUND,
    Difference,
    contradictions,
    differences,
    dram_bytes,
)
from benchmarks.counter_agreement.nsight_python import with_nsight_python
from benchmarks.counter_agreement.results import (
    LEAST_BYTES,
    SCHEMA,
    Agreement,
    Reading,
    Results,
    read,
)
from benchmarks.counter_agreement.tables import agreement_table, cost, nsight_python, source, traffic_table
from benchmarks.results_file import encode
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.judge.counters import READ_ALIKE, STATE_POINTS, tier_of
from pytest_gpuperf.metrics import METRICS, Tier
from run_builders import run

RECORDED = Path(__file__).parents[1] / "results" / "counter_agreement.json"


def reading(**metrics: float) -> Reading:
    shown = {name.replace("stall_", "stall."): value for name, value in metrics.items()}
    return Reading(name="k", grid=(1, 1, 1), block=(32, 1, 1), metrics={"elapsed_cycles": 1000.0, **shown})


def call(cupti: list[Reading], ncu: list[Reading]) -> Agreement:
    return Agreement(cupti=tuple(cupti), ncu=tuple(ncu), cupti_seconds=(1.5, 0.25, 0.35, 0.27))


def results(found: Agreement) -> Results:
    environment = run().environment
    return Results(schema=SCHEMA, date="2026-11-21", environment=environment, calls={"square_torch": found})


def unlike(found: Agreement, *metrics: str) -> list[str]:
    return [str(difference) for difference in differences(found, metrics) if not difference.same]


def test_readings_within_two_percent_agree() -> None:
    found = call([reading(instructions=100), reading(instructions=90)], [reading(instructions=102)])
    assert unlike(found, "instructions") == []
    found = call([reading(instructions=99), reading(instructions=90)], [reading(instructions=102)])
    assert unlike(found, "instructions") == ["instructions: 99 and 90 by CUPTI, 102 by ncu"]


def test_readings_around_the_other_tool_need_not_agree() -> None:
    found = call([reading(instructions=100)], [reading(instructions=90), reading(instructions=110)])
    assert unlike(found, "instructions") == ["instructions: 100 by CUPTI, 90 and 110 by ncu"]


def test_percentages_may_differ_by_half_a_point() -> None:
    assert unlike(call([reading(sm_throughput=1.0)], [reading(sm_throughput=1.5)]), "sm_throughput") == []
    assert unlike(call([reading(sm_throughput=1.0)], [reading(sm_throughput=1.6)]), "sm_throughput") != []


def test_small_stalls_are_not_compared() -> None:
    found = call([reading(stall_wait=4.9, stall_barrier=9)], [reading(stall_wait=1.0, stall_barrier=7)])
    assert unlike(found, "stalls") == ["stall.barrier: 9 by CUPTI, 7 by ncu"]


def test_same_work_over_more_cycles_agrees() -> None:
    slow, fast = (reading(sm_throughput=at, elapsed_cycles=over) for at, over in ((50, 1200), (60, 1000)))
    found = call([slow], [fast])
    assert unlike(found, "sm_throughput * elapsed_cycles") == []
    assert unlike(found, "sm_throughput") != []


def test_missing_cupti_value_equals_only_zero() -> None:
    assert unlike(call([reading()], [reading(tensor_active=0)]), "tensor_active") == []
    assert unlike(call([reading()], [reading(tensor_active=30)]), "tensor_active") != []


def test_tables_show_differences_and_traffic() -> None:
    found = call([reading(duration_us=11, dram_bytes=2e6)], [reading(duration_us=10, dram_bytes=3e6)])
    assert "|`duration_us`|0 of 1|0|square_torch: 11, 10|" in agreement_table(results(found))
    row = traffic_table(results(found)).splitlines()[-1]
    assert row == "|square_torch|268.4|2.0|3.0|11.00|10.00|1.50, 0.25, 0.35, 0.27|"


def test_missing_measurements_have_no_cost() -> None:
    rows = cost(results(call([reading()], [reading()]))).splitlines()[2:]
    assert rows == [
        "|CUPTI, lookups in a row|3|0.270|0.250 to 0.350|",
        "|CUPTI, detached after each, as by `profile()`|0|—|—|",
        "|CUPTI, preset `one-pass`, in a row|0|—|—|",
        "|CUPTI, preset `one-pass`, detached after each|0|—|—|",
        "|ncu|1|—|—|",
    ]


def test_cost_is_the_time_beyond_a_plain_process() -> None:
    found = msgspec.structs.replace(call([reading()], [reading()] * 2), nsight_python=reading())
    timed = msgspec.structs.replace(
        results(found),
        ncu_seconds=12.0,
        plain_seconds=8.0,
        nsight_python="0.9.6",
        nsight_python_seconds=14.0,
    )
    rows = cost(timed).splitlines()[-2:]
    assert rows == [
        "|ncu|2|2.000|4.0 s total|",
        "|nsight-python 0.9.6|5|1.200|6.0 s total|",
    ]


def test_nsight_python_agreement_or_reason_is_shown() -> None:
    by_ncu = [reading(instructions=100, dram_bytes=10), reading(instructions=101, dram_bytes=20)]
    mine = Reading(
        name="k",
        grid=(0, 0, 0),
        block=(0, 0, 0),
        metrics={"instructions": 102.5, "dram_bytes": 30.0, "other": 1.0, "occupancy_limit": "warps"},
    )
    found = results(msgspec.structs.replace(call([], by_ncu), nsight_python=mine))
    assert nsight_python(found).endswith("was not installed.\n")
    there = msgspec.structs.replace(found, nsight_python="0.9.6")
    assert "Of its 2 values for 1 calls, 1 are within" in nsight_python(there)
    failed = msgspec.structs.replace(there, nsight_python_failure="ncu is too old")
    assert nsight_python(failed) == "nsight-python 0.9.6 failed: ncu is too old\n"


FAKE_NSIGHT = """
import pandas as pd


class analyze:
    def kernel(configs, runs, metrics, **_):
        rows = [
            {"call": name, "Kernel": "k", "Metric": metric, "AvgValue": 2000 + runs}
            for (name,) in configs
            for metric in metrics
        ]
        found = pd.DataFrame(rows)
        return lambda _: lambda: type("Found", (), {"to_dataframe": lambda _: found})()
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install a fake nsight-python with the interface in use."""
    facts = tmp_path / "nsight_python-0.9.6.dist-info" / "METADATA"
    facts.parent.mkdir()
    facts.write_text("Metadata-Version: 2.1\nName: nsight-python\nVersion: 0.9.6\n")
    module = tmp_path / "nsight.py"
    module.write_text(FAKE_NSIGHT)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.syspath_prepend(tmp_path)
    return module


def test_nsight_python_values_get_short_names(installed: Path) -> None:
    assert installed.exists()
    metrics = ("gpu__time_duration.sum", "smsp__inst_executed.sum")
    found = with_nsight_python(results(call([], [reading()])), Path("/opt/ncu/ncu"), metrics)
    mine = found.calls["square_torch"].nsight_python
    assert mine is not None
    assert (mine.metrics["duration_us"], mine.metrics["instructions"]) == (2.005, 2005)
    assert (found.nsight_python, found.nsight_python_failure) == ("0.9.6", "")
    assert found.nsight_python_seconds


def test_nsight_python_failure_keeps_its_last_line(installed: Path) -> None:
    installed.write_text("raise RuntimeError('ncu 2026.2.1 or later is required')")
    found = with_nsight_python(results(call([], [reading()])), Path("/opt/ncu/ncu"), ())
    assert found.nsight_python_failure == "RuntimeError: ncu 2026.2.1 or later is required"
    assert found.nsight_python_seconds is None


def test_failed_call_has_an_empty_row() -> None:
    row = traffic_table(results(Agreement(failure="exit status 1"))).splitlines()[-1]
    assert row == "|square_torch|268.4|—|—|—|—|—|"


@pytest.mark.parametrize("name", LEAST_BYTES)
def test_recorded_kernels_agree_as_expected(name: str) -> None:
    assert [str(each) for each in contradictions(name, read(RECORDED).calls[name])] == []


@pytest.mark.parametrize("name", ["square_torch", "square_triton", "softmax", "sum_rows", "entropy"])
def test_recorded_traffic_is_the_same(name: str) -> None:
    call = read(RECORDED).calls[name]
    assert median(dram_bytes(call.cupti)) == pytest.approx(median(dram_bytes(call.ncu)), rel=0.02)


def test_source_names_gpu_and_tool() -> None:
    recorded = read(RECORDED)
    said = source(recorded)
    assert said.startswith("NVIDIA H100 80GB HBM3, driver 580.159.04, ")
    assert said.endswith(
        f"commit {recorded.environment.commit[:7]}, {recorded.date[:10]}, ncu 2025.3.1.0 with "
        "`--cache-control all --clock-control none`.\n"
    )


def test_times_are_compared_if_nothing_waits_for_dram() -> None:
    slow = call([reading(duration_us=11)], [reading(duration_us=10)])
    found = contradictions(COMPUTE_BOUND[0], slow)
    assert [str(each) for each in found] == ["duration_us: 11 by CUPTI, 10 by ncu"]
    assert contradictions("square_torch", slow) == []


def test_constant_stalls_may_differ_only_for_small_inputs() -> None:
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


def alike(difference: Difference) -> bool:
    """Return True if judging would take one median for the other."""
    points = abs(median(difference.by_cupti) - median(difference.by_ncu))
    return difference.medians_agree or (difference.points and points <= STATE_POINTS)


def test_judged_across_readers_is_what_they_agree_on() -> None:
    calls = read(RECORDED).calls.values()
    unlike = {one.metric for call in calls for one in differences(call) if not (one.same and alike(one))}
    counts = {name for name in METRICS if tier_of(name) is not Tier.STATE}
    assert set(COMPARED) & METRICS.keys() - counts - unlike == READ_ALIKE
    assert "instructions" not in unlike
