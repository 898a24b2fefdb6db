from __future__ import annotations

from pytest_gpuperf.judge.result import Status
from pytest_gpuperf.plugin.late_reports import properties
from pytest_gpuperf.records import Measurement
from report_examples import profile, result, timing


def test_properties_carry_time_change_and_main_counters() -> None:
    measured = {"main": Measurement(timing=timing(5.3, bytes=5_300_000), profile=profile("k"))}
    assert dict(properties(result(status=Status.IMPROVED, measurements=measured, change_pct=-7.25))) == {
        "gpuperf.verdict": "improved",
        "gpuperf.main.time_us": "5.3",
        "gpuperf.main.spread_pct": "0.4",
        "gpuperf.main.mode": "hot",
        "gpuperf.main.gb_per_s": "1000",
        "gpuperf.main.change_pct": "-7.25",
        "gpuperf.main.change_low_pct": "-7.75",
        "gpuperf.main.change_high_pct": "-6.75",
        "gpuperf.main.sm_throughput": "31.2",
        "gpuperf.main.memory_throughput": "78.4",
        "gpuperf.main.achieved_occupancy": "77.1",
        "gpuperf.main.theoretical_occupancy": "100",
        "gpuperf.main.registers_per_thread": "32",
        "gpuperf.main.top_stall": "long_scoreboard",
        "gpuperf.main.top_stall_pct": "62",
    }


def test_missing_value_has_no_property() -> None:
    assert properties(result(measurements={})) == [("gpuperf.verdict", "pass")]


def test_replayed_test_says_so() -> None:
    assert ("gpuperf.replayed", "true") in properties(result(replayed=True))
