"""Verification of timed calls, on tensors in the memory of the host."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
import torch
from msgspec.structs import replace

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.device import originals
from pytest_gpuperf.measure.device.memory import holds
from pytest_gpuperf.measure.reachable_tensors import CallElsewhere, StateSnapshot
from pytest_gpuperf.measure.verification import reexecution, verifier
from pytest_gpuperf.measure.verification.verifier import Rerun, Verifier, by_events
from pytest_gpuperf.records import Verification
from pytest_gpuperf.records.call import Call, Reference
from run_builders import timing
from timer_bench import Blocks
from verified_calls import Calls, call_of, data, unsuspicious, verify

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_gpuperf.records import Timing


pytestmark = pytest.mark.usefixtures("host_counts_as_gpu")


@dataclass
class SimpleState:
    k: torch.Tensor


class CallsElsewhere(Calls):
    """Calls that take turns with calls on copies of the arguments."""

    def __init__(self, call: Call) -> None:
        super().__init__(call)
        there = CallElsewhere(call)
        self.elsewhere = Rerun(there, by_events(), there)

    def reruns(self) -> list[Any]:
        return [self, self.elsewhere]


def verified(fn: Callable[..., Any], *args: Any, expected: Any = None, **options: Any) -> Verification:
    call = call_of(fn, *args, expected=expected, **options)
    before = [arg.clone() for arg in args]
    found = verify(call, Calls(call))
    for arg, former in zip(args, before, strict=True):
        assert torch.equal(arg, former)
    return found


@pytest.mark.parametrize("expected", [None, torch.square])
def test_right_calls_are_verified_on_other_values(expected: Any) -> None:
    found = verified(torch.square, data(), expected=expected)
    assert unsuspicious(found)
    assert found.other_values
    assert found.compared_with == ("expected" if expected else "call")
    assert (found.calls, found.unseen_ratio) == (4, 1.0)


def memo() -> Callable[[torch.Tensor], torch.Tensor]:
    known: dict[int, torch.Tensor] = {}

    def fn(x: torch.Tensor) -> torch.Tensor:
        return known.setdefault(x.data_ptr(), x.square())

    return fn


@pytest.mark.parametrize("expected", [None, torch.square])
def test_former_output_is_doubted(expected: Any) -> None:
    fn, x = memo(), data()
    fn(x)
    found = verified(fn, x, expected=expected)
    assert found.refused == ""
    assert found.doubts[0].startswith("timed calls did not compute their output")


@pytest.mark.parametrize(
    ("fn", "expected", "doubted"),
    [
        (lambda x: x.mT, lambda x: x.mT.clone(), True),
        (lambda x: x.mT, lambda x: x.mT, False),
        (lambda x: (x.square(), x), lambda x: (x.double().square(), x.double()), False),
        (lambda x: (x * 1j).conj().imag, lambda x: -x, False),
    ],
    ids=["transposed", "both", "passed on", "negative"],
)
def test_view_of_an_argument_instead_of_an_output_is_doubted(
    fn: Any, expected: Any, *, doubted: bool
) -> None:
    found = verified(fn, data(), expected=expected)
    assert found.refused == ""
    assert found.doubts[0].startswith("all outputs are views") if doubted else unsuspicious(found)


@pytest.fixture
def _no_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verifier, "hold_gpu", lambda _: None)
    for name in ("event", "record", "synchronize", "elapsed_us"):
        monkeypatch.setattr(originals, name, lambda *_: 10.0)


@pytest.mark.usefixtures("_no_events")
def test_call_that_does_no_work_elsewhere_is_doubted() -> None:
    x = data()
    outputs: dict[int, torch.Tensor] = {}

    def fn(argument: torch.Tensor) -> torch.Tensor:
        if argument.data_ptr() == x.data_ptr():
            return argument.square()
        return outputs.setdefault(argument.data_ptr(), argument.square())

    call = Call("t", "main", fn, (x,), reference=Reference(torch.square))
    assert unsuspicious(verify(call, Calls(call)))
    assert "timed calls did not compute their output" in verify(call, CallsElsewhere(call)).doubts[0]


@pytest.mark.usefixtures("_no_events")
@pytest.mark.parametrize("mutates", [(), (0,)])
def test_right_calls_elsewhere_are_verified(mutates: tuple[int, ...]) -> None:
    x = data()
    former = x.clone()

    def doubled(argument: torch.Tensor) -> torch.Tensor | None:
        if not mutates:
            return argument * 2
        argument *= 2
        return None

    reference = Reference(lambda argument: argument * 2, mutates=mutates)
    call = Call("t", "main", doubled, (x,), reference=reference)
    found = verify(call, CallsElsewhere(call))
    assert unsuspicious(found)
    assert (found.other_values, found.calls) == (True, 2)
    assert torch.equal(x, former)


def picky(known: torch.Tensor, error: Exception) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return a function that takes only the values it has seen."""
    seen = known.clone()
    former = known.square()

    def fn(x: torch.Tensor) -> torch.Tensor:
        if not torch.equal(x, seen):
            raise error
        return former.clone()

    return fn


NOT_MINE = ValueError("not mine\nmore")


def rounding(x: torch.Tensor) -> torch.Tensor:
    out = x.square()
    out[0, 0] += 1
    return out


@pytest.mark.parametrize(
    ("fn", "x", "expected", "why"),
    [
        (lambda x: x * torch.rand_like(x), data(), None, "two calls on the same values give different"),
        (lambda x: None, torch.arange(4), None, "no argument is a tensor"),
        (rounding, data(), torch.square, "the outputs of timed calls differ from the reference by little"),
        (picky(data(), NOT_MINE), data(), picky(data(), NOT_MINE), "other values raise ValueError: not mine"),
        (torch.zeros_like, data(), torch.zeros_like, "the output is the same for other values"),
    ],
    ids=["random", "no output", "rare", "raises", "ignores values"],
)
def test_honest_unverified_call_is_not_accused(fn: Any, x: torch.Tensor, expected: Any, why: str) -> None:
    found = verified(fn, x, expected=expected)
    assert (found.refused, found.doubts) == ("", ())
    assert found.not_verified.startswith(why)


def test_call_in_place_is_verified() -> None:
    found = verified(lambda x: [x.mul_(2), None][1], data(), expected=lambda x: x * 2, mutates=(0,))
    assert unsuspicious(found)
    assert found.other_values


def test_slow_unseen_values_are_doubted() -> None:
    x = data()
    call = Call("t", "main", torch.square, (x,), reference=Reference(torch.square))
    seen: list[torch.Tensor] = []

    def time_us() -> float:
        new = not (seen and torch.equal(seen[-1], x))
        seen[:] = [x.clone()]
        return 30.0 if new else 10.0

    found = verify(call, Calls(call, time_us))
    assert found.unseen_ratio == 3.0
    assert "that it has not seen takes 30 µs, on the same values again 10 µs" in found.doubts[0]


class CallsOfAGraph(Calls):
    """Calls that write to one place, where they do their work only if a pattern is there."""

    live = False

    def __init__(self, call: Call) -> None:
        super().__init__(call)
        self.value = call()
        self.memory: Any = [(self.value.data_ptr(), self.value.data_ptr() + self.value.nbytes)]

    def run(self, before: Callable[[], object]) -> float:
        before()
        works = bool(holds(self.value, reexecution.PATTERN).all())
        self.value.copy_(self._call()) if works else None
        return 30.0 if works else 10.0


def test_work_for_a_pattern_only_is_doubted() -> None:
    call = call_of(torch.square, data(), expected=torch.square)
    found = verify(call, CallsOfAGraph(call))
    assert "that it has not seen takes 30 µs, on the same values again 10 µs" in found.doubts[0]


def test_argument_that_changed_while_timed_is_refused() -> None:
    x = data()
    call = Call("t", "main", torch.square, (x,), reference=Reference(torch.square))
    found = verify(call, between=x.zero_)
    assert found.refused.startswith("the time is refused: argument 0 was changed while it was timed")
    found = Verifier(call, StateSnapshot(call)).replay(Calls(call).reruns, "argument 0")
    assert "argument 0 was changed" in found.refused, "restored before the calls ran again"


def test_field_of_an_argument_may_be_written() -> None:
    state = SimpleState(data())
    reference = Reference(lambda state: state.k * 2, mutates=(0,))
    call = Call("t", "main", lambda state: state.k.mul_(2), (state,), reference=reference)
    assert unsuspicious(verify(call, between=call))


def test_written_argument_gets_its_values_from_before_the_timing() -> None:
    x = data()
    before = x.clone()

    def double(x: torch.Tensor) -> None:
        x.mul_(2)

    call = Call("t", "main", double, (x,), reference=Reference(lambda x: x * 2, mutates=(0,)))
    assert verify(call, between=lambda: x.fill_(torch.inf)).other_values
    assert torch.equal(x, before)


def test_wrong_output_on_the_timed_values_is_refused() -> None:
    found = verified(lambda x: x.square() + 1, data(), expected=torch.square)
    assert (
        "the output of a timed call is wrong, on the values that were timed: output differs" in found.refused
    )


def test_expected_tensors_are_compared_on_the_timed_values() -> None:
    found = verified(torch.square, data(), expected=data().square())
    assert unsuspicious(found)
    assert (found.compared_with, found.other_values) == ("call", True)


def test_long_calls_are_run_again_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reexecution, "MOST_SECONDS", 0.0)
    calls: list[object] = []

    def fn(x: torch.Tensor) -> torch.Tensor:
        calls.append(x)
        return x.square()

    found = verified(fn, data(), expected=torch.square)
    # Two for the outputs, and three pairs of times.
    assert (found.calls, len(calls)) == (1, 8)


def test_filling_much_memory_leaves_time_for_all_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    passed_s = 0.0

    @contextmanager
    def fill_slowly(*_: object) -> Iterator[None]:
        nonlocal passed_s
        passed_s += 10 * reexecution.MOST_SECONDS
        yield

    monkeypatch.setattr(originals, "now", lambda: passed_s)
    monkeypatch.setattr(reexecution, "poisoned_memory", fill_slowly)
    assert verified(torch.square, data(), expected=torch.square).calls == 4


def test_argument_in_the_memory_of_a_written_one_may_change() -> None:
    base = torch.cat((data(), data()))

    def square(x: torch.Tensor, out: torch.Tensor) -> None:
        torch.square(x, out=out)

    reference = Reference(lambda x, _: x.square(), mutates=(1,))
    call = Call("t", "main", square, (base[:64], base[64:]), reference=reference)
    assert unsuspicious(verify(call, between=call))


@pytest.fixture
def verified_timing(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Timing]:
    """Return a function that verifies 5 µs, of which a replay finds something."""

    def verified(found: Verification, mode: Any = "hot", *, strict: bool = False) -> Timing:
        call = Call("t", "main", torch.square, (data(),))
        verifier = Verifier(call, StateSnapshot(call), strict=strict)
        monkeypatch.setattr(verifier, "replay", lambda *_: found)
        return verifier(Blocks(lambda _: 5.0), timing(5.0, mode), mode)

    return verified


@pytest.mark.parametrize(
    ("mode", "blocking", "single_us", "doubts"),
    [
        ("hot", False, 35.0, False),
        ("hot", True, 35.1, False),
        ("cold", False, 35.1, True),
        ("queued", False, 35.1, True),
        ("host", False, 99.0, False),
    ],
)
def test_call_by_itself_may_not_take_much_longer(
    verified_timing: Callable[..., Timing],
    monkeypatch: pytest.MonkeyPatch,
    mode: Any,
    single_us: float,
    *,
    blocking: bool,
    doubts: bool,
) -> None:
    monkeypatch.setattr(originals, "LAUNCHES_BLOCK", blocking)
    found = verified_timing(Verification(single_us=single_us), mode)
    assert any(one.startswith(f"a call by itself takes {single_us:.4g}") for one in found.doubts) is doubts
    assert not found.refused


def test_strict_refuses_what_is_doubted(verified_timing: Callable[..., Timing]) -> None:
    doubted = Verification(doubts=("it is quick",))
    found = verified_timing(doubted)
    assert (found.refused, found.doubts) == ("", ("it is quick",))
    found = verified_timing(doubted, strict=True)
    assert (found.refused, found.doubts) == ("the time is refused: it is quick", ())
    assert verified_timing(Verification(refused="a proof"), strict=True).refused == "a proof"
    found = verified_timing(Verification(not_verified="it draws random numbers"), strict=True)
    assert "nothing shows that timed calls did their work: it draws random numbers; " in found.refused
    assert not verified_timing(Verification(other_values=True), strict=True).refused


ERRORS = (RuntimeError("no"), GpuperfError("no"), torch.cuda.OutOfMemoryError("out of memory"))


@pytest.mark.parametrize("error", ERRORS, ids=type)
def test_call_that_raises_on_values_of_its_reference_is_doubted(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    x = data()
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (70 << 30, 80 << 30))
    found = verified(picky(x, error), x, expected=torch.square)
    assert f"raises {type(error).__name__} on other values, which its reference takes" in found.doubts[0]
    assert not found.refused


@pytest.mark.parametrize("expected", [torch.square, None])
@pytest.mark.parametrize("error", ERRORS, ids=type)
def test_call_that_raises_on_the_timed_values_is_doubted(
    monkeypatch: pytest.MonkeyPatch, error: Exception, expected: Any
) -> None:
    """It may have left its work out before."""

    def fn(_: torch.Tensor) -> torch.Tensor:
        raise error

    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (70 << 30, 80 << 30))
    found = verified(fn, data(), expected=expected)
    assert f"the values that were timed raises {type(error).__name__}" in found.doubts[0]


def test_lack_of_memory_is_no_doubt(monkeypatch: pytest.MonkeyPatch) -> None:
    def fn(_: torch.Tensor) -> torch.Tensor:
        raise torch.cuda.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (1 << 30, 80 << 30))
    found = verified(fn, data(), expected=torch.square)
    assert (found.doubts, found.not_verified) == ((), "the GPU has too little free memory")


@pytest.mark.parametrize("inputs", [None, lambda seed: ((seed + 2) * data(),)], ids=["changed", "new"])
@pytest.mark.parametrize(
    "other",
    [lambda x: x * 3, lambda x: x.square()[:1], lambda x: None, lambda x: (x.square(), x)],
    ids=["wrong", "shape", "nothing", "more"],
)
def test_call_that_is_right_only_on_the_timed_values_is_doubted(inputs: Any, other: Any) -> None:
    kept = data().square()
    fn = lambda x: kept.clone() if torch.equal(x, data()) else other(x)  # noqa: E731
    (doubt,) = verify(replace(call_of(fn, data(), expected=torch.square), inputs=inputs)).doubts
    assert "timed calls are wrong on other values" in doubt


def test_arguments_that_belong_together_are_not_accused() -> None:
    """Halved ones do not: here the inverse of a deviation would have to double."""
    expected = lambda x, _: x / x.std(1, keepdim=True)  # noqa: E731
    found = verified(torch.mul, data(), 1 / data().std(1, keepdim=True), expected=expected)
    assert unsuspicious(found)
    assert found.other_values


def test_work_that_is_left_out_now_and_then_is_doubted() -> None:
    x, turn = data(), [0]
    former = x.square()

    def fn(x: torch.Tensor) -> torch.Tensor:
        turn[0] += 1
        return former.clone() if turn[0] in (5, 13) else x.square()

    assert verified(fn, x, expected=torch.square).doubts


def test_setting_that_changes_while_timed_is_refused() -> None:
    call = Call("t", "main", torch.square, (data(),), reference=Reference(torch.square))

    def change() -> None:
        torch.backends.cuda.matmul.allow_tf32 = True

    found = verify(call, between=change)
    assert "has changed torch.backends.cuda.matmul.allow_tf32 from False to True" in found.refused
    assert not torch.backends.cuda.matmul.allow_tf32
