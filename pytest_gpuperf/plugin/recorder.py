"""The base of the objects behind the fixtures: it begins measurements and keeps them."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import pytest
from msgspec.structs import replace

from pytest_gpuperf.errors import GpuperfError, NoGpuError
from pytest_gpuperf.plugin.arguments import check_inputs, check_keywords, check_label
from pytest_gpuperf.records import Measurement
from pytest_gpuperf.records.call import Call
from pytest_gpuperf.session.seeds import seed_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_gpuperf.session.marker import ItemState
    from pytest_gpuperf.session.runner import CallSource, Runner

Given = ParamSpec("Given")
Returned = TypeVar("Returned")
Own = TypeVar("Own", bound="Recorder")


def fails_test(
    method: Callable[Concatenate[Own, Given], Returned],
) -> Callable[Concatenate[Own, Given], Returned]:
    """Let a mistake of the user that ends a method fail the test."""

    @wraps(method)
    def called(self: Own, /, *args: Given.args, **kwargs: Given.kwargs) -> Returned:
        __tracebackhide__ = True
        try:
            return method(self, *args, **kwargs)
        except GpuperfError as error:
            self._state.errors.append(str(error))
            # Without a GPU every test fails, and the line of the call tells nothing.
            pytrace = not isinstance(error, NoGpuError)
            raise pytest.fail.Exception(f"gpuperf: {error}", pytrace=pytrace) from None

    return called


class Recorder:
    """Begins the measurements of one test, and keeps them."""

    def __init__(self, state: ItemState, runner: Runner) -> None:
        self._state = state
        self._runner = runner
        self._checked: dict[str, Call] = {}
        """By label, what was checked: it is compared again after the timing."""
        state.release = self._checked.clear

    @property
    def seed(self) -> int:
        """The seed of this test, for generators of its own: `numpy.random.default_rng(gpuperf.seed)`."""
        return seed_of(self._state.nodeid)

    def _begin(
        self,
        part: str,
        label: str,
        fn: Callable[..., Any],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
        inputs: Callable[[int], Any] | None = None,
    ) -> tuple[CallSource, Call]:
        kwargs = kwargs or {}
        check_label(label)
        if not callable(fn):
            raise GpuperfError(
                f"the first argument is a {type(fn).__name__}",
                expected="a callable, followed by its arguments",
                next_step="write gpuperf.time(kernel, x), not gpuperf.time(kernel(x))",
            )
        self._refuse_second(part, label)
        self._state.called = True
        source = self._runner.source
        if isinstance(source, NoGpuError):
            raise source.with_traceback(None)
        check_keywords(fn, kwargs)
        check_inputs(inputs, args, kwargs)
        # Timed are other values than those that were checked.
        seed = self.seed + (part != "correctness") if inputs is not None else 0
        call = Call(self._state.nodeid, label, fn, args, kwargs, inputs, seed)
        return source, call.with_arguments() if self._runner.on_gpu else call

    def _refuse_second(self, part: str, label: str) -> None:
        if getattr(self._state.measurements.get(label), part, None) is not None:
            raise GpuperfError(
                f"this test has measured {part.replace('_', '-')} under the label {label!r} already",
                next_step="give the second one a name of its own: label='…'",
            )

    def _keep(self, label: str, **part: Any) -> None:
        measured = self._state.measurements.get(label, Measurement())
        self._state.measurements[label] = replace(measured, **part)
