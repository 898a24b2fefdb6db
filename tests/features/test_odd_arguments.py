"""Odd values as arguments of markers and methods: only clear errors may come out."""

from __future__ import annotations

import inspect
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NoReturn, cast

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from present import present
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.features.fuzz.fuzz import space_of
from pytest_gpuperf.measure import correctness
from pytest_gpuperf.plugin.facade import Gpuperf
from pytest_gpuperf.records import (
    AgainstTiming,
    Correctness,
    Fuzzing,
    Profile,
    TestRecord,
    Timing,
    Trace,
    WarmUp,
)
from pytest_gpuperf.records.run_store import encode_run
from pytest_gpuperf.session.marker import MARKER_CHECKS, ItemState, Marker
from run_builders import H200, run, timing

if TYPE_CHECKING:
    from pytest_gpuperf.records.call import Call, FuzzCall, Selection

NODEID = "test_k.py::test_k"
CALM = settings(deadline=None, max_examples=50)


class Hostile:
    """Raises whatever is asked of it."""

    def _raise(self, *_: object) -> NoReturn:
        raise ZeroDivisionError("of a stranger")

    __repr__ = __str__ = __bool__ = __eq__ = __len__ = __iter__ = __int__ = __float__ = _raise
    __hash__ = None  # type: ignore[assignment]


class Later:
    """Makes a value in the test: Hypothesis would ask it for its `repr`."""

    def __repr__(self) -> str:
        return "Hostile()"


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([63, 64, 400, 5000, 20_000]).map(lambda bits: 2**bits),
    st.floats(),
    st.complex_numbers(),
    st.text(alphabet=st.characters(codec=None)),
    st.sampled_from(["", "(", "a{99999999999}", "waves > 1", "main", "hot", "sol", "\ud800", "\0", "x" * 99]),
    st.binary(),
    st.fractions(),
    st.sampled_from([np.float32(3), np.bool_(1), np.arange(3), torch.ones(2), torch.ones(1, device="meta")]),
    st.builds(Later),
    st.just(object),
    st.just(print),
)
VALUES = st.one_of(
    SCALARS,
    st.lists(SCALARS, max_size=2),
    st.lists(SCALARS, max_size=2).map(tuple),
    st.dictionaries(st.one_of(st.text(max_size=3), st.integers(), st.none()), SCALARS, max_size=2),
    st.builds(lambda: iter([1])),
)


def made(value: object) -> object:
    """Put hostile values in their places."""
    if isinstance(value, (list, tuple)):
        return type(value)(map(made, value))
    if isinstance(value, dict):
        return {key: made(entry) for key, entry in value.items()}
    return Hostile() if isinstance(value, Later) else value


class Item:
    nodeid = NODEID

    def __init__(self, *args: object, **kwargs: object) -> None:
        self._mark = pytest.mark.gpuperf.with_args(*args, **kwargs).mark

    def iter_markers(self, _: str) -> list[pytest.Mark]:
        return [self._mark]


def marker(*args: object, **kwargs: object) -> Marker:
    return Marker.of(cast("pytest.Item", Item(*args, **kwargs)))


@CALM
@given(key=st.sampled_from([*MARKER_CHECKS]), value=VALUES)
@example(key="limits", value=np.arange(3))
@example(key="benchmark", value=Later())
@example(key="metrics", value=None)
def test_odd_value_in_a_marker_is_a_clear_error(key: str, value: object) -> None:
    message = ""
    try:
        marker(**{key: made(value)})
    except GpuperfError as error:
        message = str(error)
    assert not message or NODEID in message


def test_mistake_in_an_outer_marker_is_not_hidden_by_a_nearer_one(pytester: pytest.Pytester) -> None:
    item = pytester.getitem(
        """
        import pytest
        pytestmark = pytest.mark.gpuperf(tolerance=-1)
        @pytest.mark.gpuperf(tolerance=2)
        def test_func(): pass
        """
    )
    with pytest.raises(GpuperfError, match="tolerance=-1"):
        Marker.of(item)


class Source:
    """Answers at once, except that outputs are really compared."""

    def check(self, call: Call) -> Correctness:
        told = present(call.reference)
        return correctness.check(
            call.fn,
            call.args,
            call.kwargs,
            expected=told.expected,
            rtol=told.rtol,
            atol=told.atol,
            equal_nan=told.equal_nan,
            mutates=told.mutates,
        )

    def fuzz(self, call: FuzzCall) -> Fuzzing:
        space_of(call, torch.device("cpu"))
        return Fuzzing(passed=True, cases=1, seconds=1.0)

    def warm_up(self, _: Call) -> WarmUp:
        return WarmUp(seconds=1.0, launches=3, steady=True)

    def code(self, _: Call) -> None: ...

    def time(self, _: Call, *, mode: str, bytes: int, flops: int) -> Timing:
        return timing(mode="hot" if mode == "auto" else mode, bytes=bytes, flops=flops)  # type: ignore[arg-type]

    def in_turn(self, first: Call, other: Call, *, mode: str) -> AgainstTiming:
        return AgainstTiming(ref=first.label, commit="", log_ratios=(0.1, 0.1))

    def profile(self, call: Call, kernels: Selection) -> Profile:
        kernels.pick([1, 2], call)
        return Profile(regex=kernels.regex or "", launches=kernels.recorded)

    def trace(self, _: Call) -> Trace:
        return Trace()


class FakeRunner:
    source = Source()
    on_gpu = True

    report = SimpleNamespace(judge=SimpleNamespace(environment=SimpleNamespace(gpu=H200)))
    settings = SimpleNamespace(mode="auto", counters="auto", root=Path())

    def static(self, call: Call) -> object:
        return call()


def double(x: torch.Tensor, y: torch.Tensor | None = None) -> torch.Tensor:
    return 2 * x


METHODS = {
    name: [key for key, one in inspect.signature(method).parameters.items() if one.kind is one.KEYWORD_ONLY]
    for name, method in vars(Gpuperf).items()
    if inspect.isfunction(method) and (name == "__call__" or not name.startswith("_"))
}
del METHODS["static"], METHODS["limit"]  # below
OF_CHECKS = ("__call__", "check", "compare")


def refused(method: str, *args: object, **kwargs: object) -> bool:
    """Call a method; return True for a clear error. The records must fit in a run file."""
    state = ItemState(NODEID, Marker())
    gpuperf = Gpuperf(state, cast("Any", FakeRunner()))
    message = ""
    try:
        getattr(gpuperf, method)(*args, **kwargs)
    except pytest.fail.Exception as failure:
        message = str(failure.msg)
    encode_run(run(TestRecord(nodeid=NODEID, measurements=state.measurements)))
    checked = state.measurements["main"].correctness if "main" in state.measurements else None
    assert message.startswith("gpuperf: ") or message == (checked.failure if checked else "")
    return bool(message or state.errors)


@CALM
@given(data=st.data(), value=VALUES)
def test_odd_argument_of_a_method_is_a_clear_error(data: st.DataObject, value: object) -> None:
    method = data.draw(st.sampled_from(list(METHODS)))
    name = data.draw(st.sampled_from(METHODS[method]))
    given_first: dict[str, object] = {"expected": double} if method in OF_CHECKS else {}
    if name in ("rtol", "atol"):
        given_first |= {"rtol": 0.0, "atol": 0.0}
    value = made(value)
    if name == "expected" and callable(value):
        value = double
    if method == "fuzz":
        given_first = {"expected": double, "shapes": "(m,n)", "dtypes": torch.float32, **given_first}
    first = () if method == "fuzz" else (torch.ones(2),)
    fn = {"main": double, "other": double} if method == "compare" else double
    refused(method, fn, *first, **{**given_first, name: value})


@CALM
@given(value=VALUES)
def test_odd_limit_is_a_clear_error(value: object) -> None:
    assert refused("limit", made(value)) or value in ("waves > 1", [], (), ["waves > 1"], ("waves > 1",))


@CALM
@given(value=VALUES)
def test_anything_but_a_callable_is_refused(value: object) -> None:
    assert callable(value) or refused("time", value)
    is_right = isinstance(value, dict) and len(value) > 1 and all(map(callable, value.values()))
    assert is_right or refused("compare", made(value), torch.ones(2), expected=double)


@pytest.mark.parametrize("name", ["bytes", "flops"])
@pytest.mark.parametrize("value", [10**400, 10**5000, True, "5", Fraction(1, 2), torch.ones(2)], ids=type)
def test_odd_count_is_refused(name: str, value: object) -> None:
    assert refused("time", double, torch.ones(2), **{name: value})


STATIC = ["archs", "signature", "constexprs", "args", "label"]
OF_SOURCE = ["entry", "block_size", "shared_memory", "flags"]


@CALM
@given(
    name=st.sampled_from([*STATIC, *OF_SOURCE]),
    value=VALUES.filter(lambda value: not isinstance(value, (dict, int, str, list, tuple, type(None)))),
)
def test_odd_argument_of_static_is_a_clear_error(name: str, value: object) -> None:
    kernel = double if name in STATIC else "__global__ void k() {}"
    assert refused("static", kernel, **{name: made(value)}) or name == "label"
