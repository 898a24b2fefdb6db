"""Suspects by their settlement: in turn, by fresh processes, or not at all."""

from __future__ import annotations

import math
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from judging import HINTS, baseline, verdict
from pytest_gpuperf.judge.result import Status, TestResult
from pytest_gpuperf.judge.settled_suspects import compare_restarts
from pytest_gpuperf.judge.times import AGAIN, Origin
from pytest_gpuperf.records import (
    AgainstTiming,
    Fingerprint,
    LaunchedCode,
    LaunchedKernel,
    Measurement,
    Settlement,
)
from pytest_gpuperf.records.baseline import MeasurementBaseline, Session, TestBaseline, TimeBaseline
from pytest_gpuperf.statistics.thresholds import MACHINE_PCT
from run_builders import measured, origin_of, record, timing

SLOWER = (0.4, 0.41)
ALIKE = (0.0001, -0.0001)


def in_turn(*log_ratios: float, sessions: tuple[str, ...] = ("r",), **fields: Any) -> Settlement:
    us = 5.3 if log_ratios else 0.0
    pair = AgainstTiming(
        ref="c0ffee1", commit="c0ffee1234", log_ratios=log_ratios, old_us=us, new_us=1.5 * us
    )
    how: Literal["in turn", "impossible"] = "in turn" if log_ratios else "impossible"
    return Settlement(how=how, against=pair, sessions=sessions, **fields)


def fresh(*us: float, sessions: tuple[str, ...] = ("r",)) -> Settlement:
    return Settlement(how="fresh", fresh_us=us, reason="a shallow clone", sessions=sessions)


def settled(settlement: Settlement | None, time_us: float = 5.84, **now: Any) -> TestResult:
    """Return the verdict on a suspect, 10 % slower than a baseline of 5.3 µs."""
    origin = origin_of(**now)
    main = replace(measured(time_us), settlement=settlement)
    return verdict(record(main=main), baseline(), origin=origin)


def test_suspect_is_not_decided_until_it_is_settled() -> None:
    found = settled(None)
    assert found.status is Status.INCONCLUSIVE
    assert found.suspects == ("main",)
    assert found.warning == (
        "inconclusive: 10.2 % slower: 5.30 → 5.84 µs (8.6 to 11.8 %; 1 stored session, not settled)"
    )


def test_test_that_fails_otherwise_has_no_suspects() -> None:
    for other in ({"errors": ["a broken limit"]}, {"limits": ()}):
        main, failure = measured(5.84), "" if other.get("errors") else "KeyError"
        found = verdict(record(main=main, failure=failure), baseline(), **other)
        assert (found.status, found.suspects) == (Status.INVALID, ())


def test_slower_in_turn_has_regressed_with_one_next_step() -> None:
    found = settled(in_turn(*SLOWER, setup_s=1.2))
    assert found.status is Status.REGRESSED
    assert found.message().splitlines() == [
        "gpuperf: 49.9 % slower: 5.30 → 7.95 µs (49.5 to 50.4 %; in turn, 2 restarts, old code c0ffee1, "
        "1.2 s of set-up a process)",
        "    accept it with: gpuperf baseline accept",
    ]


def test_faster_in_turn_has_improved_whatever_the_screen_said() -> None:
    assert settled(in_turn(-0.4, -0.41)).status is Status.IMPROVED


def test_undecided_in_turn_still_differs_from_the_baseline() -> None:
    found = settled(in_turn(-0.02, 0.03, 0.02, -0.03))
    assert (found.status, found.suspects) == (Status.INCONCLUSIVE, ())
    assert found.warning == (
        "inconclusive: 10.2 % slower: 5.30 → 5.84 µs (8.6 to 11.8 %; 1 stored session, "
        "in turn -5.3 to +5.6 %, 4 restarts, old code c0ffee1)"
    )


def test_tolerance_has_to_be_exceeded_in_turn_too() -> None:
    main = replace(measured(5.84), settlement=in_turn(*[0.04, 0.041] * 3))
    found = verdict(record(main=main), baseline(), tolerance_pct=5.0)
    assert found.status is Status.PASS


CODE = LaunchedCode(kernels=(LaunchedKernel(name="k", code="ab"),), driver="580")
OTHER = LaunchedCode(kernels=(LaunchedKernel(name="k", code="cd"),), driver="580")


DRIVER = "driver 580 -> 590"


@pytest.mark.parametrize(
    ("code", "time_us", "driver", "note", "drift"),
    [
        (CODE, 5.4, "580", {"dirty": True}, "the stored session is off"),
        (CODE, 5.84, "580", {}, ""),
        (OTHER, 5.4, "580", {}, ""),
        (CODE, 5.84, "590", {"dirty": True}, DRIVER),
        (OTHER, 5.84, "590", {}, DRIVER),
        # Old code only brought the session: both sides may have what made it slower.
        (OTHER, 5.84, "590", {"dirty": True}, ""),
        (None, 5.84, "590", {"commit": "another"}, ""),
        (None, 5.4, "590", {"commit": "another"}, DRIVER),
    ],
)
def test_equal_hashes_or_a_clean_commit_explain_a_difference_with_a_warning(
    code: LaunchedCode | None, time_us: float, driver: str, note: dict[str, Any], drift: str
) -> None:
    main = replace(measured(time_us), settlement=in_turn(*ALIKE), code=replace(CODE, driver=driver))
    stored, origin = baseline(), origin_of(driver=driver, **note)
    known = replace(stored.measurements["main"], code=code)
    found = verdict(record(main=main), replace(stored, measurements={"main": known}), origin=origin)
    assert found.status is (Status.PASS if drift else Status.INCONCLUSIVE)
    assert found.drift.partition(":")[0] == drift
    assert "alike in turn" in found.warning


@pytest.mark.parametrize("now", [{"card": "GPU-2"}, {"driver": "590"}, {"allocator": "A=1"}])
def test_alike_on_another_machine_has_drifted(now: dict[str, str]) -> None:
    found = settled(in_turn(*ALIKE), 5.84, **now)
    assert (found.status, found.fails) == (Status.PASS, False)
    drift, _, command = found.drift.partition(": ")
    assert drift in ("another card", "driver 580 -> 590", "allocator native -> A=1")
    assert drift in found.warning
    assert command == "gpuperf baseline accept"
    assert found.findings[0].next_step == "accept it with: gpuperf baseline accept"


@pytest.mark.parametrize(
    ("us", "status"),
    [
        ((5.8, 5.9, 5.85), Status.REGRESSED),
        ((4.8, 4.9, 4.85), Status.IMPROVED),
        ((5.3, 5.31, 5.9), Status.PASS),
        ((5.3, 5.8, 5.9), Status.INCONCLUSIVE),
        ((5.8, 5.9), Status.INCONCLUSIVE),
    ],
)
def test_alike_with_other_packages_is_by_the_toolchain(us: tuple[float, ...], status: Status) -> None:
    found = settled(in_turn(*ALIKE, fresh_us=us), torch="2.12")
    assert found.status is status
    assert "torch 2.11 -> 2.12" in found.findings[0].line


def test_other_packages_that_launch_kernels_count_as_well() -> None:
    origin = origin_of()
    (run, note), *_ = origin.runs.items()
    before = replace(note.toolchain, packages={"flash-attn": "2.6", "liger": "1", "gone": "3"})
    now = replace(note.toolchain, packages={"flash-attn": "2.7", "liger": "1", "added": "4"})
    found = Origin(origin.card, now, {run: replace(note, toolchain=before)})
    assert found.differences([Session(run=run, time_us=1.0)])[0] == ["flash-attn 2.6 -> 2.7"]


def test_alike_with_machine_and_packages_changed_is_not_decided() -> None:
    found = settled(in_turn(*ALIKE, fresh_us=(5.8, 5.9, 5.85)), torch="2.12", card="GPU-2")
    assert found.status is Status.INCONCLUSIVE
    assert "the machine and packages changed: another card, torch 2.11 -> 2.12" in found.warning


@pytest.mark.parametrize(
    ("us", "status"),
    [
        ((5.8, 5.9, 5.85), Status.REGRESSED),
        ((5.3, 5.31, 5.29), Status.PASS),
        ((5.3, 5.8, 5.85), Status.INCONCLUSIVE),
    ],
)
def test_fresh_processes_settle_what_cannot_be_timed_in_turn(us: tuple[float, ...], status: Status) -> None:
    found = settled(fresh(*us))
    assert found.status is status
    assert "3 fresh processes, old code could not be timed in turn: a shallow clone" in found.findings[0].line


@given(st.lists(st.floats(1.5, 40), min_size=3, max_size=3), st.booleans())
def test_fresh_processes_on_another_machine_need_a_large_change(changes_pct: list[float], same: bool) -> None:
    settlement = fresh(*(5.3 * math.exp(pct / 100) for pct in changes_pct))
    found = settled(settlement, driver="580" if same else "590")
    least = 0.5 if same else 100 * math.log1p(MACHINE_PCT / 100)
    beyond = min(changes_pct) > least
    assert (found.status is Status.REGRESSED) is beyond


@pytest.mark.parametrize("driver", ["580", "590"])
def test_fresh_processes_do_not_decide_a_host_time(driver: str) -> None:
    known = TimeBaseline(mode="host", source="host", sessions=(Session(run="r", time_us=5.3),))
    timed = replace(timing(10.6, "host"), source="host")
    main = Measurement(timing=timed, settlement=fresh(10.5, 10.6, 10.7))
    stored = TestBaseline(measurements={"main": MeasurementBaseline(time=known)})
    found = verdict(record(main=main), stored, origin=origin_of(driver=driver))
    assert (found.status, "3 fresh processes" in found.warning) == (Status.INCONCLUSIVE, True)


@pytest.mark.parametrize("settlement", [in_turn(reason="no git"), fresh(5.8, 5.9)])
def test_impossible_settlement_says_why(settlement: Settlement) -> None:
    found = settled(settlement)
    assert found.status is Status.INCONCLUSIVE
    assert settlement.reason in found.warning


def test_settlement_of_other_sessions_is_not_used() -> None:
    found = settled(in_turn(*SLOWER, sessions=("gone",)))
    assert (found.status, len(found.suspects)) == (Status.INCONCLUSIVE, 1)


@pytest.mark.parametrize(
    ("settlement", "status"),
    [
        (in_turn(*ALIKE), Status.PASS),
        (in_turn(*SLOWER), Status.REGRESSED),
        (fresh(5.84, 5.85, 5.83), Status.INCONCLUSIVE),
        (fresh(8.1, 8.2, 8.3), Status.REGRESSED),
    ],
)
def test_time_that_is_too_noisy_for_the_screen_is_settled(settlement: Settlement, status: Status) -> None:
    timed = replace(timing(5.84), blocks_us=(4.0, 7.68) * 10)
    main = Measurement(timing=timed, settlement=settlement)
    found = verdict(record(main=main), baseline(), origin=origin_of())
    undecided = status is Status.INCONCLUSIVE
    assert (found.status, bool(found.warning)) == (status, undecided)
    # Accepting a noisy time would not help.
    assert [one.next_step for one in found.findings if undecided] == [AGAIN] * undecided


@pytest.mark.parametrize("ratios", [SLOWER, ALIKE, ()])
def test_time_within_the_screen_fails_only_if_it_was_slower_before(ratios: tuple[float, ...]) -> None:
    """A test that runs again has its first settlement."""
    found = settled(in_turn(*ratios), 5.3)
    assert (found.fails, bool(found.findings)) == (ratios is SLOWER, ratios is SLOWER)
    assert settled(in_turn(*ratios, sessions=("gone",)), 5.3).status is Status.PASS


def named(*log_ratios: float, reason: str = "") -> Measurement:
    """Return a time that was compared with a commit that the user named."""
    settlement = in_turn(*log_ratios, sessions=(), reason=reason)
    pair = replace(settlement.against, ref="main") if settlement.against is not None else None
    return replace(measured(5.3), settlement=replace(settlement, against=pair))


def test_commit_that_the_user_names_replaces_the_sessions() -> None:
    found = verdict(record(main=named(*SLOWER)), baseline(5.3))
    assert found.status is Status.REGRESSED
    assert "old code main (c0ffee1)" in found.message()
    assert verdict(record(main=named(*ALIKE))).status is Status.PASS


ABSENT = ("not on main: the test times no 'main' there", "on main (c0ffee1) there is no such test")


@pytest.mark.parametrize("reason", [*ABSENT, "in a fresh process there is no such test", "no time is left"])
def test_only_a_test_that_old_code_has_not_got_is_new(reason: str) -> None:
    for known in (None, baseline()):
        found = verdict(record(main=named(reason=reason)), known)
        is_new = known is None and reason in ABSENT
        assert (found.status is Status.NEW, bool(found.warning)) == (is_new, not is_new)
        assert found.findings[0].line.startswith(f"not compared with main: {reason}")


def test_another_call_than_the_baselines_is_not_compared() -> None:
    stored = baseline()
    known = replace(stored.measurements["main"], call=Fingerprint(mode="hot", bytes=4))
    main = replace(measured(5.84), call=Fingerprint(mode="hot", bytes=8))
    found = verdict(record(main=main), replace(stored, measurements={"main": known}))
    assert (found.status, found.suspects) == (Status.INCONCLUSIVE, ())
    assert found.warning.endswith(f"baseline's: bytes 8 instead of 4; {HINTS.accept}")


@pytest.mark.parametrize(
    ("raw", "at_mhz"), [((), 0), ((0.03,) * 4, 0), ((0.031, 0.0311, 0.0309, 0.031), 1750)]
)
def test_restarts_are_at_one_clock_if_it_changed_them(raw: tuple[float, ...], at_mhz: float) -> None:
    pair = in_turn(*(0.03,) * 4).against
    assert pair is not None
    found = compare_restarts(replace(pair, raw_log_ratios=raw, new_mhz=1500, old_mhz=2000))
    assert found is not None
    assert (found.at_mhz, found.actual_mhz, found.baseline_mhz) == (at_mhz, 1500, 2000)
