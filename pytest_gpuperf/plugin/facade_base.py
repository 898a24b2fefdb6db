"""The base of the object behind the `gpuperf` fixture: begins a measurement, keeps it, and fails the test."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import pytest
from msgspec.structs import replace

from pytest_gpuperf.errors import GpuperfError, NoGpuError
from pytest_gpuperf.plugin.arguments import check_inputs, check_keywords, check_label
from pytest_gpuperf.records import Measurement
from pytest_gpuperf.records.call import Call, Reference
from pytest_gpuperf.session.seeds import seed_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from pytest_gpuperf.session.marker import ItemState
    from pytest_gpuperf.session.runner import Runner
    from pytest_gpuperf.session.source import CallSource


class Recorder:
    """Keeps the measurements of one test."""

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
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        inputs: Callable[[int], Any] | None = None,
    ) -> tuple[CallSource, Call]:
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
            check_inputs(inputs, args, kwargs)
            # Timed are other values than those that were checked.
            seed = self.seed + (part != "correctness") if inputs is not None else 0
            call = Call(self._state.nodeid, label, fn, args, kwargs, inputs, seed)
            return source, call.with_arguments() if self._runner.on_gpu else call
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

    def _with_reference(self, call: Call, mutates: bool | Collection[int | str] | None) -> Call:
        """Return the call with the reference of its check, if it was checked under this label.

        Args:
            call: The call.
            mutates: Arguments that the callable may write to; None for those of the check.
        """
        checked = self._checked.get(call.label)
        reference = checked.reference if checked is not None and call.is_like(checked) else None
        if reference is not None and call.inputs is not None and not callable(reference.expected):
            # Its tensors belong to the arguments of the check.
            reference = replace(reference, expected=None)
        if mutates is not None:
            reference = replace(reference or Reference(None), mutates=mutates)
        return replace(call, reference=reference)

    def _keep(self, label: str, **part: Any) -> None:
        measured = self._state.measurements.get(label, Measurement())
        self._state.measurements[label] = replace(measured, **part)

    def _fail(self, error: GpuperfError) -> NoReturn:
        __tracebackhide__ = True
        self._state.errors.append(str(error))
        # Without a GPU every test fails, and the line of the call tells nothing.
        pytrace = not isinstance(error, NoGpuError)
        raise pytest.fail.Exception(f"gpuperf: {error}", pytrace=pytrace) from None
