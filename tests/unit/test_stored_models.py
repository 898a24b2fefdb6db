"""Clock models that a time takes over from its baseline."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from pytest_gpuperf.records import ClockModel, LaunchedCode, LaunchedKernel
from pytest_gpuperf.records.baseline import MeasurementBaseline, Session, TimeBaseline
from pytest_gpuperf.records.call import Call
from pytest_gpuperf.session.live_source import LiveSource, known_time
from pytest_gpuperf.session.progress import Display, News
from run_builders import timing

if TYPE_CHECKING:
    from pytest_gpuperf.records import Timing

MODEL = ClockModel(cycles=5 * 1980 * 0.9, fixed_us=0.5, reference_mhz=1980.0, share_error=0.01)
CODE = LaunchedCode(kernels=(LaunchedKernel(name="k", code="a" * 16),))


def baseline() -> MeasurementBaseline:
    """Return a baseline with a time."""
    low = replace(MODEL, reference_mhz=1755.0)
    sessions = (
        Session(run="1", time_us=5.0, clock_model=MODEL),
        Session(run="2", time_us=5.6, clock_model=low),
    )
    time = TimeBaseline(mode="hot", sessions=sessions, reference_mhz=1980.0)
    return MeasurementBaseline(time=time, code=CODE)


def test_known_model_is_the_newest_at_the_clock_of_the_baseline() -> None:
    """Times are brought there, so only near that clock a new model can be spared."""
    assert known_time(baseline(), CODE) == ("hot", "events", MODEL)


def test_other_or_unknown_code_may_depend_on_the_clock_in_another_way() -> None:
    other = replace(CODE, kernels=(replace(CODE.kernels[0], code="b" * 16),))
    assert known_time(baseline(), other) == known_time(baseline(), None) == ("hot", "events", None)


def test_model_is_that_of_the_code_read_for_the_same_call() -> None:
    found: list[object] = []

    class Timer:
        def time(self, call: Call, *, known: object, **_: Any) -> Timing:
            found.append(known)
            return timing()

    codes: Any = SimpleNamespace(read=lambda _: CODE)
    timer: Any = Timer()
    counters: Any = None
    expected: Any = SimpleNamespace(measurement=lambda *_: baseline())
    source = LiveSource(counters, timer, codes, Display(News()), expected=expected)
    one, other = Call("t", "main", max), Call("t", "other", max)
    source.code(one)
    for call in (one, other):
        source.time(call, mode="auto", bytes=0, flops=0)
    assert found == [("hot", "events", MODEL), ("hot", "events", None)]
