"""The verdict on a test that was compared with old code."""

from __future__ import annotations

import math
from typing import Any

import pytest
from msgspec.structs import replace

from judging import baseline, verdict
from pytest_gpuperf.judge.gate import compare_restarts
from pytest_gpuperf.judge.parts import same_compiler
from pytest_gpuperf.judge.result import Status
from pytest_gpuperf.records import (
    AgainstTiming,
    Measurement,
    MetricValue,
    Settlement,
)
from run_builders import measured, record


def pair_of(*log_ratios: float) -> AgainstTiming:
    us = 5.3 if log_ratios else 0.0
    return AgainstTiming(ref="main", commit="1a2b3c4d5e", log_ratios=log_ratios, old_us=us, new_us=us)


def in_turn(*log_ratios: float, reason: str = "") -> Measurement:
    how: Any = "impossible" if reason else "in turn"
    settlement = Settlement(how=how, against=pair_of(*log_ratios), reason=reason)
    return replace(measured(5.3), settlement=settlement)


def test_comparison_with_old_code_replaces_sessions() -> None:
    result = verdict(record(main=in_turn(0.03, 0.0301, 0.0299, 0.03)), baseline(5.3))
    assert result.status is Status.REGRESSED
    assert result.message().splitlines() == [
        "gpuperf: time_us 5.30 is 3.0 % slower than 5.14 of main (1a2b3c4) "
        "(+2.5 to +3.6 %, detects 0.8 % and more, 4 restarts, hot)",
        "    accept it with: gpuperf baseline accept",
    ]


def test_comparison_with_old_code_needs_no_baseline() -> None:
    result = verdict(record(main=in_turn(0.0001, -0.0001, 0.0)))
    assert (result.status, result.message()) == (Status.PASS, "")


def test_what_cannot_be_compared_is_inconclusive() -> None:
    result = verdict(record(main=in_turn(reason="test_x is not there")), baseline())
    assert [(finding.status, finding.line) for finding in result.findings] == [
        (Status.INCONCLUSIVE, "not compared with main: test_x is not there")
    ]


def test_pass_at_an_early_look_is_final() -> None:
    result = verdict(record(main=in_turn(0.0032, -0.0028)))
    assert result.status is Status.PASS


RATIOS = (0.03, 0.0301, 0.0299, 0.03)


@pytest.mark.parametrize(
    ("raw", "at_mhz", "raw_pct"),
    [((), 0, 3.0), (RATIOS, 0, 3.0), ((0.031, 0.0311, 0.0309, 0.031), 1750, 3.1)],
)
def test_restarts_are_at_one_clock_if_it_changed_them(
    raw: tuple[float, ...], at_mhz: float, raw_pct: float
) -> None:
    pair = pair_of(*RATIOS)
    found = compare_restarts(replace(pair, raw_log_ratios=raw, new_mhz=1500, old_mhz=2000), 0.0)
    assert found is not None
    assert (found.at_mhz, found.actual_mhz, found.baseline_mhz) == (at_mhz, 1500, 2000)
    assert found.raw_change_pct == pytest.approx(100 * math.expm1(raw_pct / 100))
    assert found.baseline_us == pytest.approx(5.3 / math.exp(0.03))
    assert (found.against, found.in_turn) == ("main (1a2b3c4)", True)


def test_nothing_in_turn_is_not_compared() -> None:
    assert compare_restarts(pair_of(), 0.0) is None


@pytest.mark.parametrize(
    ("before", "now", "other"),
    [
        ("ptxas 12", "ptxas 13", True),
        ("ptxas 12", "ptxas 12", False),
        ("ptxas 12", None, False),
        (None, "ptxas 13", False),
        (None, None, False),
    ],
)
def test_kernel_of_another_compiler_is_not_compared(
    before: str | None, now: str | None, *, other: bool
) -> None:
    def counters(compiler: str | None) -> dict[str, MetricValue]:
        return {"registers_per_thread": 32.0, **({"compiler": compiler} if compiler else {})}

    known = baseline(5.3, counters(before))
    found, findings = same_compiler(record(main=measured(None, counters(now))), known, "accept it")
    assert found is not None
    assert (found.measurements["main"].counters == {}) is other
    assert [finding.line for finding in findings] == [
        "compiled by ptxas 13, the baseline by ptxas 12: another kernel, not compared; accept it"
    ] * other
