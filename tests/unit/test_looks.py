"""A time in doubt is measured again, at other places in memory."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from statistics import stdev
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
import torch
from msgspec.structs import replace

from pytest_gpuperf.measure.verification import values
from pytest_gpuperf.measure.verification.values import copied_call
from pytest_gpuperf.records import Timing, Verification
from pytest_gpuperf.records.baseline import MeasurementBaseline, Session, TestBaseline, TimeBaseline
from pytest_gpuperf.records.call import Call
from pytest_gpuperf.session.live import LiveRunner
from pytest_gpuperf.session.live_source import LiveSource, undoubted
from run_builders import gate_of, timing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def taken(*times_us: float) -> Callable[[], Timing]:
    times: Iterator[Timing] = map(timing, times_us)
    return lambda: next(times)


def test_a_time_without_doubt_is_taken_once() -> None:
    found = undoubted(taken(5.0), lambda _: "")
    assert (found.time_us, found.looks_sd_pct, found.measured_again) == (5.0, 0, ())


def test_a_doubtful_time_is_the_median_of_three() -> None:
    found = undoubted(taken(5.5), lambda _: "regressed at first", taken(5.0, 5.2))
    assert found.time_us == 5.2
    assert found.measured_again == ("regressed at first",)
    assert found.looks_sd_pct == pytest.approx(100 * stdev([1, 5 / 5.2]), rel=0.03)


def test_a_disturbed_first_look_leaves_no_doubt() -> None:
    found = undoubted(taken(6.0), lambda _: "regressed at first", taken(5.25, 5.251))
    assert (found.time_us, round(found.looks_sd_pct, 2)) == (5.251, 0.01)


def test_looks_have_the_source_of_the_first() -> None:
    by_cupti = replace(timing(9.0), source="cupti", cupti_us=9.0, events_us=5.2)
    looks = iter([by_cupti, timing(5.1)])
    found = undoubted(taken(5.5), lambda _: "doubt", lambda: next(looks))
    assert (found.time_us, found.source) == (5.2, "events")


def test_one_refused_look_refuses_the_time() -> None:
    refused = Verification(refused="the time is refused: …")
    looks = iter([timing(5.5), replace(timing(9.0), verification=refused), timing(5.0)])
    found = undoubted(lambda: next(looks), lambda _: "doubt")
    assert (found.time_us, found.refused) == (5.5, refused.refused)


@pytest.fixture
def _cpu_is_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "on_gpu", lambda _: True)


@pytest.mark.usefixtures("_cpu_is_gpu")
def test_copies_of_arguments_lie_elsewhere_and_share_as_before() -> None:
    x = torch.arange(12.0).reshape(3, 4)
    call = Call("t", "main", max, (x, x.T, 7), {"out": [x[1]]})
    copied = copied_call(call)
    one, transposed, number = copied.args
    assert torch.equal(one, x)
    assert number == 7
    assert one.data_ptr() != x.data_ptr()
    one.fill_(1)
    assert transposed.sum() == copied.kwargs["out"][0].sum() * 3 == 12
    assert x.sum() == 66


class Holder:
    """May hold a tensor."""


def of_a_graph() -> torch.Tensor:
    return torch.ones(4, requires_grad=True) * 2


def with_gradient() -> torch.Tensor:
    x = torch.ones(4, requires_grad=True)
    x.grad = torch.ones(4)
    return x


def with_attribute() -> torch.Tensor:
    x = torch.ones(4)
    x.scale = 2  # type: ignore[attr-defined]
    return x


@pytest.mark.usefixtures("_cpu_is_gpu")
@pytest.mark.parametrize(
    "argument",
    [
        of_a_graph,
        with_gradient,
        with_attribute,
        lambda: torch.ones(4, dtype=torch.complex64).conj(),
        lambda: torch.ones(4, dtype=torch.complex64).conj().imag,
        lambda: [Holder()],
    ],
    ids=["graph", "gradient", "attribute", "conjugate", "negative", "object"],
)
def test_arguments_that_are_more_than_their_values_are_not_copied(argument: Callable[[], Any]) -> None:
    call = Call("t", "main", max, (torch.zeros(4), argument()))
    assert copied_call(call) is call


@pytest.mark.usefixtures("_cpu_is_gpu")
def test_parameters_are_copied_as_parameters() -> None:
    weight = torch.nn.Parameter(torch.ones(4))
    (copied,) = copied_call(Call("t", "main", max, (weight,))).args
    assert (type(copied), copied.requires_grad) == (torch.nn.Parameter, True)
    assert copied.data_ptr() != weight.data_ptr()


@pytest.mark.usefixtures("_cpu_is_gpu")
def test_memory_that_arguments_share_is_needed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(values, "free_bytes", lambda: 800)
    x = torch.zeros(100)
    call = Call("t", "main", max, (x, x[:50], x[50:], x.view(10, 10)))
    assert copied_call(call) is not call


@pytest.mark.usefixtures("_cpu_is_gpu")
def test_without_memory_for_copies_the_same_call_is_timing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(values, "free_bytes", lambda: 100)
    call = Call("t", "main", max, (torch.zeros(100),))
    assert copied_call(call) is call


class FakeTimer:
    """Notes what is timed; a call takes as many microseconds as its first element says."""

    def __init__(self, *, fails_elsewhere: bool = False) -> None:
        self.fails_elsewhere = fails_elsewhere
        self.places: list[int] = []
        self.models: list[object] = []

    def time(self, call: Call, *, known: Callable[..., object], **_: Any) -> Timing:
        x = call.args[0]
        self.places.append(x.data_ptr())
        self.models.append(known("hot"))
        if self.fails_elsewhere and x.data_ptr() != self.places[0]:
            raise torch.cuda.OutOfMemoryError
        return timing(float(x[0]))


def live(timer: FakeTimer, doubt: str) -> LiveSource:
    return LiveSource(
        counters=cast("Any", None),
        tests={},
        timer=cast("Any", timer),
        doubt=lambda *_: doubt,
        known=lambda call, code, mode: ("events", cast("Any", f"{call.label} {code} {mode}")),
        progress=lambda _: None,
        traces=Path(),
        alone=nullcontext,
        codes=cast("Any", None),
    )


@pytest.mark.usefixtures("_cpu_is_gpu")
def test_call_that_fails_elsewhere_is_looked_at_again_at_its_place() -> None:
    timer = FakeTimer(fails_elsewhere=True)
    x = torch.full((4,), 7.0)
    call = Call("t", "main", torch.square, (x,))
    assert live(timer, "slower at first").time(call, mode="auto", bytes=0, flops=0).time_us == 7
    assert [place == x.data_ptr() for place in timer.places] == [True, False, True, False, True]


@pytest.mark.usefixtures("_cpu_is_gpu")
@pytest.mark.parametrize(("doubt", "looks"), [("", 1), ("improved at first", 3)])
def test_further_looks_are_at_other_places_with_models_of_their_own(doubt: str, looks: int) -> None:
    timer = FakeTimer()
    source = live(timer, doubt)
    x = torch.full((4,), 7.0)
    found = source.time(Call("t", "main", torch.square, (x,)), mode="auto", bytes=0, flops=0)
    assert found.time_us == 7
    assert timer.places[0] == x.data_ptr()
    assert len(set(timer.places)) == looks
    assert timer.models == [("events", "main None hot"), *[("events", None)] * 2][:looks]


def stored_times() -> Any:
    """Return a gate with sessions of 5 µs."""
    sessions = tuple(Session(run=f"{n}", time_us=5.0 + 0.001 * n) for n in range(5))
    time = TimeBaseline(mode="hot", sessions=sessions)
    return gate_of({"t": TestBaseline(measurements={"main": MeasurementBaseline(time=time)})})


@pytest.mark.parametrize(("tolerance_pct", "doubt"), [(0.0, "regressed at first, +20.0 %"), (50.0, "")])
def test_slowdown_that_the_test_accepts_is_not_in_doubt(tolerance_pct: float, doubt: str) -> None:
    runner = SimpleNamespace(
        expected=SimpleNamespace(gate=stored_times()),
        _tolerances_pct={"t": tolerance_pct},
    )
    assert LiveRunner._doubt(cast("Any", runner), Call("t", "main", max), timing(6.0)) == doubt


def test_places_that_differ_make_a_change_uncertain() -> None:
    gate = stored_times()
    sure = gate.compare(("t", "main"), timing(5.1))
    unsure = gate.compare(("t", "main"), replace(timing(5.1), looks_sd_pct=3.0))
    assert sure is not None
    assert unsure is not None
    assert (sure.slower, unsure.slower) == (True, False)
    assert unsure.decision.high_pct > sure.decision.high_pct + 2
