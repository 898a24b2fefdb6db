"""The base of the object behind the `gpuperf` fixture: begins a measurement, keeps it, and fails the test."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import msgspec
import pytest

from pytest_gpuperf.errors import GpuperfError, NoGpuError
from pytest_gpuperf.plugin.arguments import check_keywords, check_label
from pytest_gpuperf.plugin.inputs import Checked, Given
from pytest_gpuperf.records import Measurement
from pytest_gpuperf.session.seeds import seed_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_gpuperf.plugin.inputs import Factory
    from pytest_gpuperf.records.call import Call
    from pytest_gpuperf.session.marker import ItemState
    from pytest_gpuperf.session.runner import Runner
    from pytest_gpuperf.session.source import CallSource


class Recorder:
    """Keeps the measurements of one test."""

    def __init__(self, state: ItemState, runner: Runner) -> None:
        self._state = state
        self._runner = runner
        self._checked = Checked()
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
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        inputs: Factory | None = None,
    ) -> tuple[CallSource, Given, Call]:
        __tracebackhide__ = True
        self._check_label(label)
        if not callable(fn):
            self._fail(
                GpuperfError(
                    f"the first argument is a {type(fn).__name__}",
                    expected="a callable, followed by its arguments",
                    next_step="write gpuperf.time(kernel, x), not gpuperf.time(kernel(x))",
                )
            )
        self._refuse_second(part, label)
        self._state.called = True
        source = self._runner.source
        if isinstance(source, NoGpuError):
            self._fail(source)
        try:
            check_keywords(fn, kwargs)
            given = Given(fn, args, kwargs, inputs)
            # Timed are other values than those that were checked.
            seed = self.seed + (part != "correctness") if inputs is not None else 0
            return source, given, given.call(self._state.nodeid, label, seed, makes=self._runner.on_gpu)
        except GpuperfError as error:
            self._fail(error)

    def _check_label(self, label: object) -> None:
        __tracebackhide__ = True
        try:
            check_label(label)
        except GpuperfError as error:
            self._fail(error)

    def _refuse_second(self, part: str, label: str) -> None:
        __tracebackhide__ = True
        measured = self._state.measurements.get(label)
        if getattr(measured, part, None) is not None:
            self._fail(
                GpuperfError(
                    f"this test has measured {part.replace('_', '-')} under the label {label!r} already",
                    next_step="give the second one a name of its own: label='…'",
                )
            )

    def _keep(self, label: str, **part: Any) -> None:
        measured = self._state.measurements.get(label, Measurement())
        self._state.measurements[label] = msgspec.structs.replace(measured, **part)

    def _fail(self, error: GpuperfError) -> NoReturn:
        __tracebackhide__ = True
        self._state.errors.append(str(error))
        # Without a GPU every test fails, and the line of the call tells nothing.
        pytrace = not isinstance(error, NoGpuError)
        raise pytest.fail.Exception(f"gpuperf: {error}", pytrace=pytrace) from None
