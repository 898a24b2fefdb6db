"""The verdict on a test that was compared with old code."""

from __future__ import annotations

from msgspec.structs import replace

from judging import baseline, verdict
from pytest_gpuperf.judge.result import Status
from pytest_gpuperf.records import (
    AgainstTiming,
    Measurement,
)
from run_builders import measured, record


def in_turn(*log_ratios: float, reason: str = "", broken: bool = False) -> Measurement:
    pair = AgainstTiming(
        ref="main",
        commit="1a2b3c4d5e",
        log_ratios=log_ratios,
        old_us=5.3 if log_ratios else 0.0,
        new_us=5.3 if log_ratios else 0.0,
        reason=reason,
        broken=broken,
    )
    return replace(measured(5.3), against=pair)


def test_comparison_with_old_code_replaces_sessions() -> None:
    result = verdict(record(main=in_turn(0.03, 0.0301, 0.0299, 0.03)), baseline(5.3))
    assert result.status is Status.REGRESSED
    assert result.message().splitlines() == [
        "gpuperf: time_us 5.30 is 3.0 % slower than 5.14 of main (1a2b3c4) "
        "(+2.4 to +3.7 %, detects 1.1 % and more, 4 restarts, hot)",
        "    accept it with: gpuperf baseline accept",
    ]


def test_comparison_with_old_code_needs_no_baseline() -> None:
    result = verdict(record(main=in_turn(0.0001, -0.0001, 0.0)))
    assert (result.status, result.message()) == (Status.PASS, "")


def test_test_missing_in_old_code_passes_with_a_remark() -> None:
    result = verdict(record(main=in_turn(reason="test_x is not there")), baseline())
    assert [(finding.status, finding.line) for finding in result.findings] == [
        (Status.PASS, "not compared with main: test_x is not there")
    ]


def test_broken_worker_fails_the_test() -> None:
    result = verdict(record(main=in_turn(reason="the worker died", broken=True)), baseline())
    assert result.message() == "gpuperf: not compared with main: the worker died"


def test_worker_broken_after_some_restarts_fails_the_test() -> None:
    result = verdict(record(main=in_turn(0.0, 0.0, reason="the worker died", broken=True)), baseline())
    assert result.message() == "gpuperf: not compared with main: the worker died"


def test_pass_at_an_early_look_is_final() -> None:
    result = verdict(record(main=in_turn(0.00603, 0.00637, 0.00647, 0.00613)))
    assert result.status is Status.PASS
