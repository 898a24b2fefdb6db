"""A time next to single calls: repeated before it is doubted, and without CUPTI by the host's clock."""

from __future__ import annotations

import itertools
from contextlib import nullcontext
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import torch
from msgspec.structs import replace

from pytest_gpuperf.measure.cupti.libcupti import CuptiError
from pytest_gpuperf.measure.device import originals
from pytest_gpuperf.measure.verification import cupti_records
from pytest_gpuperf.measure.verification.cupti_records import Audit, UncontainedError, contained
from pytest_gpuperf.records import Conditions, OtherTime
from run_builders import timing
from timer_bench import Blocks

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_gpuperf.records import Timing

TIMING = timing(50.0)
HONEST = Audit(busy_us=50.0, silent=0, calls=5, outside_us=0.0, late=0, launches=1)


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Timing]:
    """Return a function that compares 50 µs with audits."""

    def compare(
        *audits: Audit | Exception,
        timed: Timing = TIMING,
        in_short_graph_us: float = 50.0,
        captured: Any = None,
        mode: str = "hot",
    ) -> Timing:
        left = list(audits)

        def audit(*_: object) -> Audit:
            found = left.pop(0)
            if isinstance(found, Exception):
                raise found
            return found

        monkeypatch.setattr(cupti_records, "audit", audit)
        monkeypatch.setattr(cupti_records, "in_short_graph_us", lambda _: in_short_graph_us)
        prepared = Blocks(lambda _: timed.us_by("events") or 0.0)
        prepared.single_calls, prepared.captured = bool(audits), captured
        result = contained(prepared, timed, mode)
        assert not left
        return result

    return compare


def busy_us(timed: Timing) -> float | None:
    return timed.single_call.busy_us if timed.single_call is not None else None


def test_honest_calls_are_recorded_once(compared: Callable[..., Timing]) -> None:
    found = compared(HONEST._replace(copied_bytes=4e5))
    assert (busy_us(found), found.gb_per_s, found.doubts) == (50.0, 8.0, ())


def test_one_long_recording_is_no_reason_to_doubt(compared: Callable[..., Timing]) -> None:
    found = compared(HONEST._replace(busy_us=500.0), HONEST)
    assert (busy_us(found), found.doubts) == (50.0, ())


def test_two_long_recordings_are_a_doubt(compared: Callable[..., Timing]) -> None:
    (doubt,) = compared(HONEST._replace(busy_us=500.0), HONEST._replace(busy_us=400.0)).doubts
    assert "single calls keep the GPU busy for 400.00 us" in doubt


def test_doubt_is_enough_to_choose_another_mode(compared: Callable[..., Timing]) -> None:
    with pytest.raises(UncontainedError) as told:
        compared(*[HONEST._replace(busy_us=500.0)] * 2, mode="auto")
    assert "single calls keep the GPU busy for 500.00 us" in told.value.why


@pytest.mark.parametrize(("in_short_graph_us", "doubted"), [(9.0, False), (90.0, True)])
def test_gaps_of_a_long_graph_are_no_work(
    compared: Callable[..., Timing], in_short_graph_us: float, doubted: bool
) -> None:
    timed = replace(timing(5.0), source="cupti", other=OtherTime(time_us=14.0))
    audits = [HONEST._replace(busy_us=5.0)] * 2
    assert bool(compared(*audits, timed=timed, in_short_graph_us=in_short_graph_us).doubts) is doubted


def test_other_process_leaves_a_difference_open(compared: Callable[..., Timing]) -> None:
    shared = replace(timing(50.0), conditions=Conditions(other_processes=1))
    found = compared(HONEST._replace(busy_us=500.0), timed=shared)
    assert (found.not_compared, found.doubts) == ("another process was on the GPU", ())


@pytest.mark.parametrize("conditions", [Conditions(), Conditions(other_processes=1)])
@pytest.mark.parametrize(
    ("audit", "why"),
    [
        (HONEST._replace(outside_us=90.0), "work of a call ran for 90"),
        # A quarter of the work on the legacy stream is too little to show in the times.
        (HONEST._replace(busy_us=60.0, launches=2), "a capture sees 1 of them"),
    ],
    ids=["outside of the call", "outside of the graph"],
)
def test_work_outside_is_a_proof(
    compared: Callable[..., Timing], conditions: Conditions, audit: Audit, why: str
) -> None:
    timed = replace(timing(50.0), conditions=conditions)
    with pytest.raises(UncontainedError, match=why):
        compared(audit, audit, timed=timed, captured=SimpleNamespace(launches=1))


@pytest.mark.parametrize(("needed", "skipped"), [(5 << 30, True), (1 << 30, False)])
def test_calls_without_memory_next_to_the_graph_are_not_compared(
    compared: Callable[..., Timing], monkeypatch: pytest.MonkeyPatch, needed: int, skipped: bool
) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (4 << 30, 80 << 30))
    error, captured = torch.cuda.OutOfMemoryError(), SimpleNamespace(output_bytes=needed, launches=1)
    with nullcontext() if skipped else pytest.raises(torch.cuda.OutOfMemoryError):
        found = compared(error, captured=captured)
        assert (found.not_compared[:14], found.doubts) == ("4 GiB are free", ())


def test_calls_by_kernels_are_not_recorded_again(compared: Callable[..., Timing]) -> None:
    assert compared() == TIMING


@pytest.mark.parametrize("doubt", ["", "the GPU worked on"])
def test_without_cupti_the_host_waits_for_the_device(
    compared: Callable[..., Timing], monkeypatch: pytest.MonkeyPatch, doubt: str
) -> None:
    monkeypatch.setattr(cupti_records, "lagging", lambda _: doubt)
    found = compared(CuptiError("there is no CUPTI"))
    assert (found.not_compared, found.doubts) == ("there is no CUPTI", (doubt,) if doubt else ())


@pytest.mark.parametrize(("lag_us", "told"), [(49.0, False), (51.0, True)])
def test_only_work_of_calls_may_lag(monkeypatch: pytest.MonkeyPatch, lag_us: float, told: bool) -> None:
    steps: list[str] = []
    times = itertools.cycle([1.0, 1.0 + lag_us / 1e6])
    monkeypatch.setattr(originals, "now", lambda: next(times))
    monkeypatch.setattr(originals, "has_passed", lambda _: True)
    for name in ("event", "record", "current_stream", "synchronize"):
        monkeypatch.setattr(originals, name, lambda *_, name=name: steps.append(name))
    assert bool(cupti_records.lagging(lambda: steps.append("call"))) is told
    one = ["current_stream", "event", "synchronize", *["call"] * 20, "record", "synchronize"]
    assert steps == one * 3
