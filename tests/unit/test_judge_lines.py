"""Lines on a time and its remarks, and the bounds of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from inline_snapshot import snapshot
from msgspec.structs import replace

from judging import HINTS
from pytest_gpuperf.judge import times
from pytest_gpuperf.judge.code import CodeComparison
from pytest_gpuperf.judge.counters import CounterComparison
from pytest_gpuperf.judge.gate import TimeComparison
from pytest_gpuperf.judge.times import BaselineComparison, time_line
from pytest_gpuperf.records.baseline import Session, TimeBaseline
from pytest_gpuperf.records.change import Change
from pytest_gpuperf.statistics.decision import Decision, Outcome
from run_builders import timing

if TYPE_CHECKING:
    from pytest_gpuperf.judge.result import Finding

PASSED = Decision(
    outcome=Outcome.PASS,
    change_pct=0.5,
    low_pct=0.1,
    high_pct=0.9,
    detectable_pct=1.25,
    replicates=5,
)
AT_CLOCK = TimeComparison(
    PASSED,
    actual_us=5.43,
    baseline_us=5.4,
    raw_change_pct=20.0,
    at_mhz=1500.4,
    actual_mhz=1400,
    baseline_mhz=1700,
)
MORE_WORK = Change("instructions", 100, 200, 100.0, worse=True)


def decided(time: TimeComparison = AT_CLOCK, **values: Any) -> TimeComparison:
    return replace(time, decision=replace(time.decision, **values))


def test_lines_of_times_have_all_parts() -> None:
    times_of = [
        AT_CLOCK,
        decided(change_pct=0.0, replicates=1),
        decided(change_pct=-0.5, new_card=True),
        decided(
            replace(AT_CLOCK, at_mhz=0.0, against="main (1a2b3c4)", in_turn=True),
            outcome=Outcome.INCONCLUSIVE,
            as_measured=True,
        ),
        replace(AT_CLOCK, at_mhz=0.0),
    ]
    assert "\n".join(time_line(time, "hot") for time in times_of) == snapshot("""\
time_us 5.43 is 0.5 % slower than the baseline 5.40 (+0.1 to +0.9 %, detects 1.2 % and more, 5 sessions, hot, at 1500 MHz)
time_us 5.43 is 0.0 % slower than the baseline 5.40 (+0.1 to +0.9 %, detects 1.2 % and more, 1 session, hot, at 1500 MHz)
time_us 5.43 is 0.5 % faster than the baseline 5.40 (+0.1 to +0.9 %, detects 1.2 % and more, 5 sessions, hot, at 1500 MHz, on a card that the baseline has not seen)
time_us 5.43 is 0.5 % slower than 5.40 of main (1a2b3c4), too uncertain to be called (+0.1 to +0.9 %, detects 1.2 % and more, 5 restarts, hot, at 1400 instead of 1700 MHz)
time_us 5.43 is 0.5 % slower than the baseline 5.40 (+0.1 to +0.9 %, detects 1.2 % and more, 5 sessions, hot)\
""")  # noqa: E501


def moved(time: TimeComparison | None, **counters: Any) -> str:
    return times._machine_moved(BaselineComparison(CounterComparison(**counters), time))


def test_machine_that_moved_is_told_from_the_kernel() -> None:
    said = "the machine moved, not the kernel: +20.0 % at 1400 instead of 1700 MHz, +0.5 % at 1500 MHz"
    assert moved(AT_CLOCK) == said
    assert moved(AT_CLOCK, compared=True) == f"{said}, instructions unchanged"


@pytest.mark.parametrize(
    ("raw_pct", "change_pct", "said"), [(1.5, 0.5, False), (1.51, 0.5, True), (-1.51, -0.5, True)]
)
def test_machine_moved_if_raw_time_moved_a_point_more(raw_pct: float, change_pct: float, said: bool) -> None:
    time = replace(decided(change_pct=change_pct), raw_change_pct=raw_pct)
    assert bool(moved(time)) is said


def test_machine_is_not_blamed_for_other_times_and_other_work() -> None:
    slower, uncertain = (decided(outcome=one) for one in (Outcome.REGRESSED, Outcome.INCONCLUSIVE))
    others = [None, replace(AT_CLOCK, at_mhz=0.0), replace(AT_CLOCK, in_turn=True), slower, uncertain]
    assert [moved(time) for time in others] == [""] * 5
    changes: list[dict[str, Any]] = [
        {"work": (MORE_WORK,)},
        {"worse_exact": (MORE_WORK,)},
        {"kernels": "now runs b"},
    ]
    assert [moved(AT_CLOCK, **one) for one in changes] == [""] * 3


def of_time(time: TimeComparison, **counters: Any) -> list[Finding]:
    return list(times._of_time(CounterComparison(**counters), time, "hot", "main", HINTS, CodeComparison()))


@pytest.mark.parametrize(
    ("in_turn", "outcome", "hints"),
    [
        (False, Outcome.REGRESSED, (HINTS.closer, HINTS.accept)),
        (True, Outcome.REGRESSED, (HINTS.accept,)),
        (False, Outcome.IMPROVED, (HINTS.accept,)),
        (False, Outcome.INCONCLUSIVE, (HINTS.more_sessions, HINTS.closer)),
        (True, Outcome.INCONCLUSIVE, ()),
    ],
)
def test_finding_of_a_time_has_the_commands_that_help(
    in_turn: bool, outcome: Outcome, hints: tuple[str, ...]
) -> None:
    (finding,) = of_time(replace(decided(outcome=outcome), in_turn=in_turn), kernels="now runs b")
    assert finding.details == ("now runs b", *hints)
    assert finding.status.value == outcome.value
    assert finding.label == "main"


def test_slower_time_with_the_same_work_names_the_machine() -> None:
    slower = decided(outcome=Outcome.REGRESSED)
    said = "the kernels did the same work: look at the machine, too"
    assert of_time(slower, compared=True)[0].details == (said, HINTS.closer, HINTS.accept)
    assert said not in of_time(slower, compared=True, work=(MORE_WORK,))[0].details


def test_remark_of_a_time_without_a_host_or_autotuner_is_empty() -> None:
    now = timing(5.3)
    known = TimeBaseline(mode="hot", sessions=(Session(run="r", time_us=5.3, autotuned=("k: BLOCK: 64",)),))
    assert times._host(now, known) == ""
    assert times._autotuned_otherwise(now, known) == ""
    assert times._autotuned_otherwise(now, None) == ""
    picked = msgspec.structs.replace(now, autotuned=("k: BLOCK: 64",))
    assert times._autotuned_otherwise(picked, known) == ""
    other = msgspec.structs.replace(now, autotuned=("k: BLOCK: 128",))
    assert times._autotuned_otherwise(other, None) == ""
    said = "autotune picked k: BLOCK: 128; in the baseline k: BLOCK: 64"
    assert times._autotuned_otherwise(other, known) == said
