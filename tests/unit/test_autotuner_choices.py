"""Configurations that autotuners chose, next to those of the baseline."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from judging import verdict
from pytest_gpuperf.judge.autotuner_choices import choice_lines
from pytest_gpuperf.records import AgainstTiming, Autotuning, Measurement, Settlement, Timing
from pytest_gpuperf.records.baseline import MeasurementBaseline, Session, TestBaseline, TimeBaseline
from pytest_gpuperf.session.live_source import other_choice
from run_builders import record, timing

SMALL = "scale: BLOCK: 64, num_warps: 4, num_stages: 3"
LARGE = "scale: BLOCK: 128, num_warps: 8, num_stages: 3"
KEYS = "mm: B: 16", "mm: B: 32", "mm: B: 64"
SAID = "autotuner chose BLOCK 64, num_warps 4; the baseline's BLOCK 128, num_warps 8"


def known(*sessions: tuple[str, ...]) -> TimeBaseline:
    stored = [Session(run=f"r{at}", time_us=5.3, autotuned=one) for at, one in enumerate(sessions)]
    return TimeBaseline(mode="hot", sessions=tuple(stored))


def stored(*sessions: tuple[str, ...]) -> TestBaseline:
    return TestBaseline(measurements={"main": MeasurementBaseline(time=known(*sessions))})


def timed(*autotuned: str, time_us: float = 5.3) -> Timing:
    return replace(timing(time_us), autotuning=Autotuning(chosen=autotuned))


@pytest.mark.parametrize(
    ("now", "sessions", "line"),
    [
        ((SMALL,), [(LARGE,)], SAID),
        ((SMALL,), [(SMALL,), (LARGE,)], ""),
        ((SMALL,), [()], ""),
        ((), [(LARGE,)], ""),
        (("other: BLOCK: 64",), [(LARGE,)], ""),
        ((SMALL,), [(LARGE,), ()], SAID),
        (
            (SMALL, "sum: BLOCK: 8"),
            [(LARGE, "sum: BLOCK: 8")],
            "autotuner chose BLOCK 64, num_warps 4 for scale; the baseline's BLOCK 128, num_warps 8",
        ),
        (
            (SMALL, "sum: BLOCK: 8, EVEN: True"),
            [(LARGE, "sum: BLOCK: 16")],
            "autotuner chose BLOCK 64, num_warps 4 for scale; the baseline's BLOCK 128, num_warps 8\n"
            "autotuner chose BLOCK 8, EVEN True for sum; the baseline's BLOCK 16, EVEN none",
        ),
        (
            ("sum: BLOCK: 8, EVEN: True",),
            [("sum: BLOCK: 8, SPLIT: 2",)],
            "autotuner chose EVEN True, SPLIT none; the baseline's EVEN none, SPLIT 2",
        ),
        (KEYS, [("mm: B: 16", "mm: B: 48", "mm: B: 64")], "autotuner chose B 32 for mm; the baseline's B 48"),
        (KEYS[1:], [("mm: B: 64",)], "autotuner chose B 32 for mm; the baseline's B 64"),
    ],
)
def test_choice_that_no_session_has_is_shown_by_what_differs(
    now: tuple[str, ...], sessions: list[tuple[str, ...]], line: str
) -> None:
    assert "\n".join(choice_lines(timed(*now), known(*sessions))) == line


def test_time_with_the_choice_of_the_baseline_tells_a_flip_from_a_slower_kernel() -> None:
    now = replace(timed(), autotuning=Autotuning(chosen=(SMALL,), baseline_choice_us=5.31))
    assert choice_lines(now, known((LARGE,))) == [f"{SAID}, with which this code takes 5.31 µs"]


def test_choice_is_compared_with_that_of_old_code_if_a_user_named_it() -> None:
    against = AgainstTiming(ref="old", commit="", log_ratios=(0.1, 0.1), new_us=9.0, autotuned=(LARGE,))
    measured = Measurement(
        timing=replace(timed(time_us=9.0), autotuning=Autotuning(chosen=(SMALL,), baseline_choice_us=9.1)),
        settlement=Settlement(how="in turn", against=against),
    )
    (found,) = verdict(record(main=measured), stored((SMALL,))).findings
    chosen = "autotuner chose BLOCK 64, num_warps 4; old's BLOCK 128, num_warps 8"
    assert found.line.startswith(f"{chosen}; 10.5 % slower: ")


def test_slower_time_with_another_choice_says_so_first() -> None:
    now, before = (SMALL, "sum: BLOCK: 8"), (LARGE, "sum: BLOCK: 4")
    said, other = choice_lines(timed(*now), known(before))
    slower, alike = (
        verdict(record(main=Measurement(timing=timed(*now, time_us=us))), stored(before, before))
        for us in (9.0, 5.3)
    )
    (found,) = [one for one in slower.findings if "autotuner" in one.line]
    assert found.line.startswith(f"{said}; 69.8 % slower: 5.30 → 9 µs")
    assert [found.details[0], *((one.line, *one.details) for one in alike.findings)] == [other, (said, other)]


@pytest.mark.parametrize(
    ("now", "wanted"),
    [
        (timed(SMALL, time_us=5.4), {"scale": LARGE.partition(": ")[2]}),
        (timed(SMALL, time_us=5.31), {}),
        (timed(LARGE, time_us=5.4), {}),
        (replace(timed(SMALL, time_us=5.4), mode="cold"), {}),
    ],
)
def test_choice_of_the_baseline_is_timed_if_another_is_slower(now: Timing, wanted: dict[str, str]) -> None:
    assert other_choice(MeasurementBaseline(time=known((LARGE,))), now) == wanted
    # A name cannot pin two configurations.
    assert not other_choice(MeasurementBaseline(time=known((LARGE, LARGE.replace("128", "256")))), now)
