"""Lines on a time and its remarks, and the bounds of each."""

from __future__ import annotations

from typing import Any

from inline_snapshot import snapshot
from msgspec.structs import replace

from pytest_gpuperf.judge.result import TimeComparison
from pytest_gpuperf.judge.times import time_line
from pytest_gpuperf.statistics.decision import Decision, Outcome

PASSED = Decision(outcome=Outcome.PASS, change_pct=0.5, low_pct=0.1, high_pct=0.9, replicates=5)
AT_CLOCK = TimeComparison(
    PASSED, actual_us=5.43, baseline_us=5.4, at_mhz=1500.4, actual_mhz=1400, baseline_mhz=1700
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
        decided(replace(AT_CLOCK, at_mhz=0.0, stored=3), replicates=1),
    ]
    assert "\n".join(time_line(time, "hot") for time in times_of) == snapshot("""\
0.5 % slower: 5.40 → 5.43 µs (0.1 to 0.9 %; 5 stored sessions)
0.0 % slower: 5.40 → 5.43 µs (0.1 to 0.9 %; 1 stored session)
0.5 % faster: 5.40 → 5.43 µs (-0.9 to -0.1 %; 5 stored sessions, on a card that the baseline has not seen)
0.5 % slower: 5.40 → 5.43 µs (0.1 to 0.9 %; in turn, 5 restarts, old code main (1a2b3c4), at 1400 instead of 1700 MHz)
0.5 % slower: 5.40 → 5.43 µs (0.1 to 0.9 %; 1 of 3 stored sessions, same card)\
""")  # noqa: E501
    assert time_line(replace(AT_CLOCK, why=("not settled",)), "cold") == snapshot(
        "0.5 % slower: 5.40 → 5.43 µs cold (0.1 to 0.9 %; 5 stored sessions, not settled)"
    )
