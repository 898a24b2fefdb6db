"""Lines on a time and its remarks, and the bounds of each."""

from __future__ import annotations

from typing import Any

import msgspec
from inline_snapshot import snapshot
from msgspec.structs import replace

from pytest_gpuperf.judge import times
from pytest_gpuperf.judge.screen import TimeComparison
from pytest_gpuperf.judge.times import time_line
from pytest_gpuperf.records.baseline import Session, TimeBaseline
from pytest_gpuperf.statistics.decision import Decision, Outcome
from run_builders import timing

PASSED = Decision(
    outcome=Outcome.PASS,
    change_pct=0.5,
    low_pct=0.1,
    high_pct=0.9,
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


def decided(time: TimeComparison = AT_CLOCK, **values: Any) -> TimeComparison:
    return replace(time, decision=replace(time.decision, **values))


def test_lines_of_times_have_all_parts() -> None:
    times_of = [
        AT_CLOCK,
        decided(change_pct=0.0, replicates=1),
        decided(change_pct=-0.5, new_card=True),
        decided(
            replace(AT_CLOCK, at_mhz=0.0, against="main (1a2b3c4)", how="in turn"),
            outcome=Outcome.INCONCLUSIVE,
            as_measured=True,
        ),
        replace(AT_CLOCK, at_mhz=0.0),
    ]
    assert "\n".join(time_line(time, "hot") for time in times_of) == snapshot("""\
0.5 % slower: 5.40 → 5.43 µs (0.1 to 0.9 %; 5 stored sessions)
0.0 % slower: 5.40 → 5.43 µs (0.1 to 0.9 %; 1 stored session)
0.5 % faster: 5.40 → 5.43 µs (-0.9 to -0.1 %; 5 stored sessions, on a card that the baseline has not seen)
0.5 % slower: 5.40 → 5.43 µs (0.1 to 0.9 %; in turn, 5 restarts, old code main (1a2b3c4), at 1400 instead of 1700 MHz)
0.5 % slower: 5.40 → 5.43 µs (0.1 to 0.9 %; 5 stored sessions)\
""")  # noqa: E501
    assert time_line(replace(AT_CLOCK, why=("not settled",)), "cold") == snapshot(
        "0.5 % slower: 5.40 → 5.43 µs cold (0.1 to 0.9 %; 5 stored sessions, not settled)"
    )


def test_machine_that_moved_is_told_from_the_kernel() -> None:
    said = "the machine moved, not the kernel: +20.0 % at 1400 instead of 1700 MHz, +0.5 % at 1500 MHz"
    assert times._machine_moved(AT_CLOCK) == said
    # Within the screen as measured, too: its whole width is 0.8 %.
    near = [replace(AT_CLOCK, raw_change_pct=raw) for raw in (1.0, 1.01, -1.01)]
    assert [bool(times._machine_moved(time)) for time in near] == [False, True, True]
    slower, uncertain = (decided(outcome=one) for one in (Outcome.REGRESSED, Outcome.INCONCLUSIVE))
    others = [None, replace(AT_CLOCK, at_mhz=0.0), replace(AT_CLOCK, how="in turn"), slower, uncertain]
    assert [times._machine_moved(time) for time in others] == [""] * 5


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
