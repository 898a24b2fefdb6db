"""Time of a test compared with its sessions: from the gate to pytest's verdict."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from pytest_gpuperf.baseline.merge import accept
from pytest_gpuperf.baseline.store import BaselineStore
from pytest_gpuperf.records import ClockModel, GpuInfo, Measurement, Run, Timing
from pytest_gpuperf.records.baseline import MeasurementBaseline, Session, TestBaseline, TimeBaseline
from pytest_gpuperf.statistics.decision import Decision, Outcome
from pytest_gpuperf.statistics.estimate import trimmed_mean
from run_builders import gate_of, measured, profile, record, run, timing

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_gpuperf.judge.screen import TimeComparison
    from pytest_gpuperf.records import MetricValue

# 100 µs at 2000 MHz, 90 % of it cycles.
MODEL = ClockModel(cycles=180_000, fixed_us=10, reference_mhz=2000)


def at_clock(mhz: float, slower: float = 1.0) -> Timing:
    """Return the time of a kernel of the model at a clock, times a factor."""
    time_us = slower * MODEL.time_us(mhz)
    return replace(timing(time_us), blocks_us=(time_us,) * 20, blocks_mhz=(mhz,) * 20, clock_model=MODEL)


def session(number: int, mhz: float = 2000.0) -> Session:
    return Session(
        run=f"r{number}",
        time_us=MODEL.time_us(mhz),
        normalised_us=MODEL.time_us(2000),
        sm_clock_mhz=mhz,
        clock_model=MODEL,
    )


def compared(now: Timing, sessions: tuple[Session, ...], reference_mhz: float = 2000.0) -> TimeComparison:
    times = TimeBaseline(mode="hot", reference_mhz=reference_mhz, sessions=sessions)
    known = TestBaseline(measurements={"main": MeasurementBaseline(time=times)})
    found = gate_of({"t": known}).compare(("t", "main"), now)
    assert found is not None
    return found


FIVE = tuple(session(number) for number in range(5))


def test_power_limited_time_is_compared_at_the_baseline_clock() -> None:
    found = compared(at_clock(1400), FIVE)
    assert found.raw_change_pct == pytest.approx(38.6, abs=0.1)
    assert found.decision.change_pct == pytest.approx(0, abs=0.01)
    assert (found.decision.outcome, found.at_mhz) == (Outcome.PASS, 2000)


def test_a_slowdown_is_found_through_another_clock() -> None:
    found = compared(at_clock(1400, slower=1.05), FIVE)
    assert found.decision.outcome is Outcome.REGRESSED
    assert found.decision.change_pct == pytest.approx(5, abs=0.01)


def over_clocks(*mhz: float, slower: float = 1.0) -> Timing:
    """Return a timing with one block at each clock."""
    blocks = tuple(slower * MODEL.time_us(clock) for clock in mhz)
    time_us = trimmed_mean(blocks)
    return replace(timing(time_us), blocks_us=blocks, blocks_mhz=mhz, clock_model=MODEL)


def test_the_value_of_another_source_is_compared_as_measured() -> None:
    # The clock had recovered before CUPTI's blocks.
    now = replace(at_clock(1400), cupti_us=MODEL.time_us(2000))
    stored = tuple(replace(one, clock_model=None, normalised_us=0.0) for one in FIVE)
    times = TimeBaseline(mode="hot", source="cupti", sessions=stored)
    known = TestBaseline(measurements={"main": MeasurementBaseline(time=times)})
    found = gate_of({"t": known}).compare(("t", "main"), now)
    assert found is not None
    assert (found.at_mhz, found.actual_mhz) == (0, 0)
    assert found.decision.change_pct == pytest.approx(0, abs=0.01)


# The slow blocks are a quarter of the clocks, but the time leaves them out.
WANDERING = (*(1000.0,) * 5, *(1320.0,) * 15)


def test_blocks_at_many_clocks_are_each_normalised() -> None:
    found = compared(over_clocks(*WANDERING), FIVE)
    assert found.decision.change_pct == pytest.approx(0, abs=0.01)
    found = compared(over_clocks(*WANDERING, slower=1.02), FIVE)
    assert found.decision.change_pct == pytest.approx(2, abs=0.01)
    assert found.decision.outcome is Outcome.REGRESSED


def test_a_time_without_a_clock_is_compared_as_measured() -> None:
    found = compared(timing(MODEL.time_us(2000)), FIVE)
    assert (found.at_mhz, found.decision.outcome) == (0, Outcome.INCONCLUSIVE)


def test_clock_that_is_not_known_matters_as_much_as_the_share() -> None:
    """By CUPTI instead of events a time had lost its clock: a lower one was `regressed +12.6 %`."""
    slower = timing(1.126 * MODEL.time_us(2000))
    assert compared(slower, FIVE).decision.outcome is Outcome.INCONCLUSIVE
    by_memory = ClockModel(cycles=0.0, fixed_us=MODEL.time_us(2000), reference_mhz=2000.0)
    stored = tuple(replace(one, clock_model=by_memory) for one in FIVE)
    assert compared(slower, stored).decision.outcome is Outcome.REGRESSED


def test_baseline_model_normalises_a_time_without_one() -> None:
    found = compared(replace(at_clock(1400), clock_model=None), FIVE)
    assert found.decision.change_pct == pytest.approx(0, abs=0.01)


def test_time_at_the_border_is_compared_by_the_baseline_source() -> None:
    now = replace(timing(20.0), source="cupti", events_us=20.4, cupti_us=20.0)
    times = TimeBaseline(mode="hot", source="events", sessions=(Session(run="r", time_us=20.4),))
    known = TestBaseline(measurements={"main": MeasurementBaseline(time=times)})
    found = gate_of({"t": known}).compare(("t", "main"), now)
    assert found is not None
    assert found.decision.change_pct == pytest.approx(0)


def test_sessions_without_a_clock_do_not_count() -> None:
    unknown = Session(run="r9", time_us=90.0)
    assert compared(at_clock(1400), (unknown, *FIVE)).decision.replicates == 5
    assert compared(timing(91.0), (unknown,)).decision.replicates == 1


def test_older_session_model_replaces_a_missing_one() -> None:
    newest = replace(session(9, mhz=1500), clock_model=None)
    found = compared(replace(at_clock(1400), clock_model=None), (*FIVE, newest))
    assert found.decision.change_pct == pytest.approx(0, abs=0.01)


def by_the_host(now_us: float, *stored_us: float) -> Decision:
    sessions = tuple(Session(run=f"r{at}", time_us=time_us) for at, time_us in enumerate(stored_us))
    times = TimeBaseline(mode="host", source="host", sessions=sessions)
    known = TestBaseline(measurements={"main": MeasurementBaseline(time=times)})
    now = replace(timing(now_us), mode="host", source="host", events_us=0.0)
    found = gate_of({"t": known}).compare(("t", "main"), now)
    assert found is not None
    return found.decision


def test_host_times_allow_for_the_spread_between_sessions() -> None:
    assert by_the_host(2100.0, 1950.0).outcome is Outcome.PASS
    assert by_the_host(2080.0, 1950.0, 1990.0, 2190.0).outcome is Outcome.PASS
    assert by_the_host(4000.0, 1950.0, 1990.0, 2050.0).outcome is Outcome.REGRESSED


def test_a_host_that_is_steady_finds_smaller_changes() -> None:
    steady = by_the_host(596.0, *(595.0 + at / 2 for at in range(5)))
    assert steady.outcome is Outcome.PASS
    assert 5 < steady.detectable_pct < by_the_host(596.0, 595.0).detectable_pct / 2


def test_labels_and_pins_count_as_comparisons() -> None:
    times = TimeBaseline(mode="hot", reference_mhz=2000, sessions=FIVE)
    many = TestBaseline(measurements={f"l{n}": MeasurementBaseline(time=times) for n in range(200)})
    one = TestBaseline(measurements={"l0": MeasurementBaseline(time=times)})
    # One test needs 0.57 % for a regression; among 200 equally quiet ones it needs 0.69 %.
    now = at_clock(2000, slower=1.0061)
    alone, among = (gate_of({"t": known}).compare(("t", "l0"), now) for known in (one, many))
    assert alone is not None
    assert among is not None
    assert (alone.decision.outcome, among.decision.outcome) == (Outcome.REGRESSED, Outcome.PASS)


def test_more_sessions_find_smaller_changes() -> None:
    found = [compared(at_clock(2000), FIVE[:count]).decision.detectable_pct for count in (1, 2, 5)]
    assert found == sorted(found, reverse=True)
    assert found[0] > 1.2 * found[-1]


NODEID = "test_k.py::test_k"
TEST = "def test_k(gpuperf):\n    gpuperf.time(print)\n    gpuperf.profile(print)\n"


class Project:
    """A suite with one test, baselines and recordings."""

    def __init__(self, pytester: pytest.Pytester, add_recording: Callable[[Run], None]) -> None:
        self._pytester = pytester
        self._add = add_recording
        self._numbers = itertools.count(1)
        self.store = BaselineStore(pytester.path / "baselines", state=pytester.path / ".gpuperf")
        pytester.makepyfile(test_k=TEST)

    def session(self, now: Timing, counters: Mapping[str, MetricValue], card: str = "GPU-1") -> Run:
        number = next(self._numbers)
        gpu = GpuInfo(name="NVIDIA H200", slug="nvidia-h200", uuid=card)
        measurement = Measurement(timing=now, profile=profile(counters))
        started = f"2026-11-{number:02}T12:00:00Z"
        return run(
            record(NODEID, main=measurement), id=f"202611{number:02}-120000-aaaa", gpu=gpu, started_at=started
        )

    def baseline(self, *times_us: float, **counters: MetricValue) -> None:
        runs = [self.session(timing(time_us), counters or {"instructions": 1000.0}) for time_us in times_us]
        accept(runs, self.store, "all", 0.0, sessions="append", environ={})

    def judged(
        self, time_us: float, *options: str, card: str = "GPU-1", **counters: MetricValue
    ) -> pytest.RunResult:
        self._add(self.session(timing(time_us), counters or {"instructions": 1000.0}, card))
        return self._pytester.runpytest("--gpuperf", "-v", "-rA", *options)


@pytest.fixture
def project(pytester: pytest.Pytester, add_recording: Callable[[Run], None], monkeypatch: Any) -> Project:
    monkeypatch.setenv("COLUMNS", "200")
    return Project(pytester, add_recording)


def test_unchanged_time_passes_with_interval_and_detectable_change(project: Project) -> None:
    project.baseline(100.0, 100.1, 99.9)
    result = project.judged(100.05)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["test_k* +0.1 ±0.? %* 0.8 % *pass*"])


def test_slower_time_fails_with_certainty_and_next_command(project: Project) -> None:
    project.baseline(100.0, 100.1, 99.9)
    result = project.judged(105.0)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*gpuperf: time_us 105 is 5.0 % slower than the baseline 100 (+4.7 to +5.3 %, detects 0.8 % and "
            "more, 3 sessions, hot)",
            "*the kernels did the same work: look at the machine, too",
            "*to look closer: pytest --gpuperf --gpuperf-against=REF test_k.py::test_k",
            "*if this is intended: gpuperf baseline accept*",
        ]
    )


def test_the_counter_that_explains_a_slower_time_comes_first(project: Project) -> None:
    project.baseline(100.0, 100.1, 99.9, registers_per_thread=32, instructions=1000)
    result = project.judged(105.0, registers_per_thread=64, instructions=1000)
    result.stdout.fnmatch_lines(
        ["*gpuperf: registers_per_thread 32 -> 64 (+100.0 %): time_us 105 is 5.0 % slower*"]
    )


def test_inconclusive_time_fails_only_if_strict(project: Project) -> None:
    project.baseline(100.0, 100.3, 99.7)
    result = project.judged(101.0)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        [
            "test_k *inconclusive*",
            "*time_us 101* is 1.0 % slower than the baseline 100*, too uncertain to be called (*",
            "*to see smaller changes: gpuperf baseline record --sessions 5*",
        ]
    )
    strict = project.judged(101.0, "--gpuperf-strict")
    strict.assert_outcomes(failed=1)
    strict.stdout.fnmatch_lines(["*gpuperf: time_us 101 is 1.0 % slower*too uncertain to be called*"])


def test_tolerance_accepts_a_certain_slowdown(project: Project) -> None:
    project.baseline(100.0, 100.1, 99.9)
    project.judged(105.0, "-ogpuperf_tolerance=6").assert_outcomes(passed=1)
    project.judged(107.0, "-ogpuperf_tolerance=6").assert_outcomes(failed=1)


def test_faster_time_is_improved_with_the_command_to_accept(project: Project) -> None:
    project.baseline(100.0, 100.1, 99.9)
    result = project.judged(95.0)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        [
            "*time_us 95 is 5.0 % faster than the baseline 100*",
            "*if this is intended: gpuperf baseline accept*",
        ]
    )


def test_new_card_is_judged_more_widely_and_named(project: Project) -> None:
    project.baseline(100.0, 100.1, 99.9)
    result = project.judged(102.0, card="GPU-2")
    result.assert_outcomes(passed=1)
    project.judged(110.0, card="GPU-2").stdout.fnmatch_lines(["*on a card that the baseline has not seen*"])


def test_more_instructions_at_the_same_time_are_an_early_warning(project: Project) -> None:
    project.baseline(100.0, 100.1, 99.9, instructions=1000)
    result = project.judged(100.0, instructions=1050)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*instructions 1000 -> 1050 (+5.0 %) at the same time: an early warning*"])


def test_changed_machine_is_distinguished_from_changed_kernel(
    project: Project, add_recording: Callable[[Run], None], pytester: pytest.Pytester
) -> None:
    counters = {"instructions": 1000.0}
    runs = [project.session(at_clock(2000), counters) for _ in range(3)]
    accept(runs, project.store, "all", 0.0, environ={})
    add_recording(project.session(at_clock(1400), counters))
    result = pytester.runpytest("--gpuperf", "-v")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        ["*the machine moved, not the kernel: +38.6 % at 1400 instead of 2000 MHz, 0.0 % at 2000 MHz*"]
    )


def test_measured_values_of_the_same_kind_share_their_noise() -> None:
    """Check a test with one session: it gets the spread between sessions from the other tests."""
    noisy = tuple(Session(run=f"r{n}", time_us=100.0 * (1 + 0.03 * (n % 2))) for n in range(6))
    quiet = TestBaseline(
        measurements={"main": MeasurementBaseline(time=TimeBaseline(mode="hot", sessions=(noisy[0],)))}
    )
    other = TestBaseline(
        measurements={"main": MeasurementBaseline(time=TimeBaseline(mode="hot", sessions=noisy))}
    )
    key, now = ("quiet", "main"), measured(100.0).timing
    assert now is not None
    alone = gate_of({"quiet": quiet}).compare(key, now)
    beside = gate_of({"quiet": quiet, **{f"noisy{n}": other for n in range(5)}}).compare(key, now)
    assert alone is not None
    assert beside is not None
    assert beside.decision.detectable_pct > alone.decision.detectable_pct
