"""Arguments that a factory makes, and the reference of an earlier check."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.plugin.facade import Gpuperf
from pytest_gpuperf.plugin.inputs import Checked, Given
from pytest_gpuperf.records import Correctness, Profile, Timing, Verification
from pytest_gpuperf.records.call import Call, CheckedCall, Reference
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

    call = Given(add, (), {}, inputs).call("t", "main", 7, makes=True)
    assert (call(), call.seed, seeds) == (value, 7, [7])
    assert call.inputs is not None
    call.inputs(8)
    assert seeds == [7, 8]


def test_replay_makes_no_arguments() -> None:
    assert Given(add, (), {}, int.bit_length).call("t", "main", 7, makes=False).args == ()


@pytest.mark.parametrize(
    ("args", "inputs", "text"),
    [
        ((1,), lambda _: (1,), "both arguments and inputs=; expected one of them"),
        ((), 3, "inputs=3; expected a callable that takes a seed"),
    ],
)
def test_wrong_inputs_are_refused(args: tuple[int, ...], inputs: Any, text: str) -> None:
    with pytest.raises(GpuperfError, match=text):
        Given(add, args, {}, inputs)


def test_factory_that_returns_no_arguments_is_refused() -> None:
    with pytest.raises(GpuperfError, match="inputs= returned a float; expected a tuple"):
        Given(add, (), {}, lambda _: 1.0).call("t", "main", 0, makes=True)


X, Y = object(), object()


@pytest.mark.parametrize(
    ("given", "known"),
    [
        (Given(add, (X,), {"y": Y}), True),
        (Given(add, (Y,), {"y": Y}), False),
        (Given(add, (X,), {}), False),
        (Given(add, (X, Y), {"y": Y}), False),
        (Given(add, (X,), {"z": Y}), False),
        (Given(sum, (X,), {"y": Y}), False),
        (Given(add, (), {}, id), False),
    ],
)
def test_reference_belongs_to_the_same_call(given: Given, *, known: bool) -> None:
    checked = Checked()
    reference = Reference(add)
    checked.add("main", Given(add, (X,), {"y": Y}), reference)
    call = checked.with_reference(given.call("t", "main", 0, makes=False), given)
    assert (getattr(call, "reference", None) is reference) is known


def test_reference_of_another_label_is_not_taken() -> None:
    checked, given = Checked(), Given(add, (X,), {})
    checked.add("other", given, Reference(add))
    call = given.call("t", "main", 0, makes=True)
    assert checked.with_reference(call, given) is call


@pytest.mark.parametrize("expected", [add, 3])
def test_expected_tensors_belong_to_the_inputs_of_the_check(expected: Any) -> None:
    checked, given = Checked(), Given(add, (), {}, lambda seed: (seed,))
    checked.add("main", given, Reference(expected, rtol=0.1, atol=0.2))
    call = checked.with_reference(given.call("t", "main", 1, makes=True), given)
    assert isinstance(call, CheckedCall)
    assert call.reference == Reference(add if expected is add else None, rtol=0.1, atol=0.2)


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


def facade(source: Source) -> Gpuperf:
    settings = SimpleNamespace(mode="auto")
    runner: Any = SimpleNamespace(
        source=source,
        settings=settings,
        on_gpu=True,
        report=None,
        unchanged=lambda *_: None,
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
    assert isinstance(known, CheckedCall)
    assert (known.reference.expected, known.reference.rtol) == (sum, 0.5)
    assert not isinstance(unknown, CheckedCall)


@pytest.mark.parametrize("checks", [True, False])
def test_time_takes_the_arguments_that_may_be_written(*, checks: bool) -> None:
    source = Source()
    gpuperf = facade(source)
    if checks:
        gpuperf.check(add, X, expected=sum)
    gpuperf.time(add, X, mutates=(0,))
    (call,) = source.timed
    assert isinstance(call, CheckedCall)
    assert call.reference == Reference(sum if checks else None, mutates=[0])


def test_refused_time_fails_the_test_and_is_kept() -> None:
    gpuperf = facade(Source("the time is refused: it skips calls"))
    with pytest.raises(pytest.fail.Exception, match="gpuperf: the time is refused: it skips calls"):
        gpuperf.time(add, X)
    kept = gpuperf._state.measurements["main"].timing
    assert kept is not None
    assert kept.refused
