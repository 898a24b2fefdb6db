"""Arguments that a factory makes, and the reference of an earlier check."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from msgspec.structs import replace

from present import present
from pytest_gpuperf.plugin.facade import Gpuperf
from pytest_gpuperf.records import Correctness, Profile, Timing, Verification
from pytest_gpuperf.records.call import Call, Reference
from pytest_gpuperf.session.marker import ItemState, Marker
from run_builders import timing


def add(x: int, y: int = 0) -> int:
    return x + y


@pytest.mark.parametrize(
    ("made", "value"),
    [((1, 2), 3), ([1, 2], 3), ({"x": 1, "y": 4}, 5), (((1,), {"y": 5}), 6)],
    ids=["tuple", "list", "dict", "both"],
)
def test_factory_makes_arguments_for_a_seed(made: Any, value: int) -> None:
    seeds: list[int] = []

    def inputs(seed: int) -> Any:
        seeds.append(seed)
        return made

    call = Call("t", "main", add, inputs=inputs, seed=7).with_arguments()
    assert (call(), call.seed, seeds) == (value, 7, [7])
    assert present(call.factory)(8) == (call.args, call.kwargs)
    assert seeds == [7, 8]


@pytest.mark.parametrize(
    ("args", "inputs", "text"),
    [
        ((1,), lambda _: (1,), "both arguments and inputs=; expected one of them"),
        ((), 3, "inputs=3; expected a callable that takes a seed"),
        ((), lambda _: 1.0, "inputs= returned a float; expected a tuple"),
    ],
)
def test_wrong_inputs_are_refused(args: tuple[int, ...], inputs: Any, text: str) -> None:
    with pytest.raises(pytest.fail.Exception, match=text):
        facade(Source()).time(add, *args, inputs=inputs)


def test_replay_makes_no_arguments() -> None:
    source = Source()
    facade(source, on_gpu=False).time(add, inputs=int.bit_length)
    assert source.timed[0].args == ()


X, Y = object(), object()


@pytest.mark.parametrize(
    ("call", "known"),
    [
        (Call("t", "main", add, (X,), {"y": Y}), True),
        (Call("t", "main", add, (Y,), {"y": Y}), False),
        (Call("t", "main", add, (X,)), False),
        (Call("t", "main", add, (X, Y), {"y": Y}), False),
        (Call("t", "main", add, (X,), {"z": Y}), False),
        (Call("t", "main", sum, (X,), {"y": Y}), False),
        (Call("t", "main", add, inputs=id), False),
    ],
)
def test_call_is_like_the_same_one(call: Call, *, known: bool) -> None:
    assert call.is_like(Call("t", "other", add, (X,), {"y": Y})) is known


@pytest.mark.parametrize("expected", [add, torch.ones(1)], ids=["callable", "tensor"])
def test_expected_tensors_belong_to_the_inputs_of_the_check(expected: Any) -> None:
    source = Source()

    def inputs(seed: int) -> tuple[int]:
        return (seed,)

    gpuperf = facade(source)
    gpuperf.check(add, inputs=inputs, expected=expected, rtol=0.1, atol=0.2)
    gpuperf.time(add, inputs=inputs)
    known = add if expected is add else None
    assert source.timed[0].reference == Reference(known, rtol=0.1, atol=0.2, mutates=[])


class Source:
    """Keeps the calls, and refuses the time if told so."""

    def __init__(self, refused: str = "") -> None:
        self.checked: list[Call] = []
        self.timed: list[Call] = []
        self._refused = refused

    def check(self, call: Call) -> Correctness:
        self.checked.append(call)
        return Correctness(passed=True)

    def code(self, call: Call) -> None: ...

    def time(self, call: Call, **_: Any) -> Timing:
        self.timed.append(call)
        return replace(timing(), verification=Verification(refused=self._refused))

    def profile(self, call: Call, _: object) -> Profile:
        self.timed.append(call)
        return Profile()


def facade(source: Source, *, on_gpu: bool = True) -> Gpuperf:
    settings = SimpleNamespace(mode="auto")
    runner: Any = SimpleNamespace(
        source=source, settings=settings, on_gpu=on_gpu, report=None, unchanged=lambda *_: None
    )
    return Gpuperf(ItemState("t.py::test", Marker()), runner)


def test_time_and_profile_have_other_inputs_than_the_check() -> None:
    source = Source()
    gpuperf = facade(source)
    gpuperf(add, inputs=lambda seed: (seed,), expected=add)
    seed = gpuperf.seed
    assert [call.args for call in source.checked] == [(seed,)]
    assert [call.args for call in source.timed] == [(seed + 1,)] * 2


def test_time_knows_the_reference_of_the_check() -> None:
    source = Source()
    gpuperf = facade(source)
    gpuperf.check(add, X, expected=sum, rtol=0.5, atol=0.0)
    gpuperf.time(add, X)
    gpuperf.time(add, Y, label="other")
    known, unknown = source.timed
    assert known.reference == Reference(sum, rtol=0.5, atol=0.0, mutates=[])
    assert unknown.reference is None


@pytest.mark.parametrize("checks", [True, False])
def test_time_takes_the_arguments_that_may_be_written(*, checks: bool) -> None:
    source = Source()
    gpuperf = facade(source)
    if checks:
        gpuperf.check(add, X, expected=sum)
    gpuperf.time(add, X, mutates=(0,))
    (call,) = source.timed
    assert call.reference == Reference(sum if checks else None, mutates=[0])


def test_refused_time_fails_the_test_and_is_kept() -> None:
    gpuperf = facade(Source("the time is refused: it skips calls"))
    with pytest.raises(pytest.fail.Exception, match="gpuperf: the time is refused: it skips calls"):
        gpuperf.time(add, X)
    assert present(gpuperf._state.measurements["main"].timing).refused
