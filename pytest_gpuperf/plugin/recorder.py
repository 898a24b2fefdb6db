"""Begin of each measurement: its arguments are checked before anything runs, and its result is kept."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Collection, Mapping
from functools import wraps
from numbers import Real
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, ParamSpec, TypeVar

import pytest
from msgspec import Meta
from msgspec.structs import replace

from pytest_gpuperf.errors import GpuperfError, NoGpuError, show_exception, show_repr
from pytest_gpuperf.records import Measurement
from pytest_gpuperf.records.call import Call, Reference, checked
from pytest_gpuperf.records.number_ranges import AbsoluteTolerance, Count, RelativeTolerance
from pytest_gpuperf.records.settlement import is_out_of_memory
from pytest_gpuperf.session.seeds import seed_of
from pytest_gpuperf.settings.options import MAX_TIMEOUT_S, MODES

if TYPE_CHECKING:
    from pytest_gpuperf.session.marker import ItemState
    from pytest_gpuperf.session.runner import CallSource, Runner

Given = ParamSpec("Given")
Returned = TypeVar("Returned")
Own = TypeVar("Own", bound="Recorder")
LONGEST_LABEL = 200
# Half of a character, which no file can hold, is refused.
_Label = Annotated[str, Meta(min_length=1, max_length=LONGEST_LABEL, pattern="^[^\ud800-\udfff]*$")]
_Mode = Annotated[str, Meta(pattern=rf"^({'|'.join(MODES)})\Z")]
_Duration = Annotated[float, Meta(gt=0, le=MAX_TIMEOUT_S)]
_Mutates = bool | list[Annotated[int, Meta(ge=0, lt=2**31)] | str]
_STATIC = {
    "signature": (dict[str, str] | None, "types by name: {'x_ptr': '*fp32', 'n': 'i32'}"),
    "constexprs": (dict[str, Any] | None, "values by name: {'BLOCK': 128}"),
    "args": (list[Any] | dict[str, Any] | None, "the arguments of a launch: a tuple, or values by name"),
}
"""Type of each argument of `static`, also in words."""
LARGEST_COUNT = 2**63 - 1
"""Largest whole number that a run file can hold."""
OF_CALL = (
    *("expected", "inputs", "bytes", "flops", "rtol", "atol", "equal_nan", "mutates", "mode", "kernels"),
    *("launches", "limits", "tolerance", "label"),
)
"""Keywords of `gpuperf(...)`."""
OF_MARKER = ("preset", "metrics", "benchmark", "gpus")
"""Keywords that only the marker takes."""
OF_OTHERS = frozenset({"input", "model"})
"""Keywords that look like one of ours, and that callables often take."""
MORE_MEMORY = "gpuperf: a check holds copies; next step: free other tensors, or take a smaller shape"
"""Advice below torch's error, which says how many bytes were asked for and are free."""
ALIKE = 0.8
"""Likeness, by `difflib`, from which on a keyword is taken for a misspelt one."""


def fails_test(
    method: Callable[Concatenate[Own, Given], Returned],
) -> Callable[Concatenate[Own, Given], Returned]:
    """Let a mistake of the user that ends a method fail the test, and add advice to a lack of memory."""

    @wraps(method)
    def called(own: Own, /, *args: Given.args, **kwargs: Given.kwargs) -> Returned:
        # Not `self`: arguments that do not fit the method are no error of the plugin's (`is_of_measuring`).
        __tracebackhide__ = True
        try:
            if own._state.ended:
                raise GpuperfError("a call after the verdict", expected="a call before the test ends")
            return method(own, *args, **kwargs)
        except GpuperfError as error:
            own._state.errors.append(str(error))
            # Without a GPU every test fails, and the line of the call tells nothing.
            pytrace = not isinstance(error, NoGpuError)
            raise pytest.fail.Exception(f"gpuperf: {error}", pytrace=pytrace) from None
        except Exception as error:
            if is_out_of_memory(show_exception(error)) and MORE_MEMORY not in str(error):
                error.args = (f"{error}\n{MORE_MEMORY}",)
            raise

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
                next_step="give the second one a label of its own: label='…'",
            )

    def _keep(self, label: str, **part: Any) -> None:
        measured = self._state.measurements.get(label, Measurement())
        self._state.measurements[label] = replace(measured, **part)


def check_keywords(fn: Callable[..., Any], names: Collection[str]) -> None:
    """Refuse keywords that look like those of `gpuperf(...)`, unless the callable names them.

    Args:
        fn: The callable under test. One that tells no signature, such as those in C, refuses them itself.
        names: The keywords that it would get.

    Raises:
        GpuperfError: One of them is a keyword of another method, of the marker, or misspelt.
    """
    try:
        own = inspect.signature(getattr(fn, "forward", fn)).parameters if names else {}
    except (TypeError, ValueError):
        return
    for name in names:
        near = difflib.get_close_matches(name, (*OF_CALL, *OF_MARKER), 1, ALIKE)
        if name in own or name in OF_OTHERS or not near:
            continue
        place = "@pytest.mark.gpuperf" if near[0] in OF_MARKER else "gpuperf"
        raise GpuperfError(
            f"the keyword {name}=, which the callable does not name",
            expected=f"{near[0]}= of {place}(...)",
            next_step=f"if the callable takes {name}=, write lambda *args: kernel(*args, {name}=...)",
        )


def check_inputs(inputs: object, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Check what makes the arguments; None if the test gave them."""
    if inputs is None:
        return
    if not callable(inputs):
        raise GpuperfError(
            f"inputs={show_repr(inputs)}", expected="a callable that takes a seed and returns the arguments"
        )
    if args or kwargs:
        raise GpuperfError(
            "both arguments and inputs=",
            expected="one of them: inputs= makes all arguments",
            next_step="let the callable that inputs= names return them too",
        )


def check_label(label: object) -> None:
    """Check the name of a measurement: a key in files, and a part of a line in reports."""
    checked("label", label, _Label, f"a text of 1 to {LONGEST_LABEL} Unicode characters")


def check_mode(mode: object, default: str) -> str:
    """Return the timing mode; the default for None."""
    return str(checked("mode", default if mode is None else mode, _Mode, f"one of {', '.join(MODES)}"))


def check_count(name: str, value: Any) -> int:
    """Return a number of bytes or operations; it may be a float without a fraction."""
    # numpy's floats of other sizes are no floats of Python.
    fraction = isinstance(value, Real) and not isinstance(value, int)
    whole = int(value) if fraction and float(value).is_integer() else value
    expected = f"how many {name} one call has, a whole number from 0 to {LARGEST_COUNT}"
    return int(checked(name, whole, Count, expected))


def check_expected(value: Any) -> Any:
    """Return an expected output; a replay compares nothing, and must not pass what fails on a GPU."""
    if not callable(value) and not _has_arrays(value):
        expected = "a reference callable, or the expected tensors"
        raise GpuperfError(f"expected={show_repr(value)}", expected=expected)
    return value


def _has_arrays(value: Any) -> bool:
    if isinstance(value, (tuple, list, Mapping)):
        return any(map(_has_arrays, value.values() if isinstance(value, Mapping) else value))
    return hasattr(value, "__dlpack__") or hasattr(value, "__cuda_array_interface__")


def check_callable(name: str, value: Any) -> Callable[..., Any]:
    """Return a callable."""
    if not callable(value):
        expected = "a callable: the arguments differ from call to call"
        raise GpuperfError(f"{name}={show_repr(value)}", expected=expected)
    function: Callable[..., Any] = value
    return function


def check_exceptions(value: object) -> tuple[type[Exception], ...]:
    """Return classes of exceptions."""
    some = value if isinstance(value, tuple) else (value,)
    if not all(isinstance(one, type) and issubclass(one, Exception) for one in some):
        raise GpuperfError(f"refuses={show_repr(value)}", expected="an exception, or a tuple of them")
    return some


def check_seconds(value: object) -> float:
    """Return a number of seconds."""
    return float(checked("seconds", value, _Duration, "a number of seconds above 0"))


def check_mutates(mutates: object) -> bool | Collection[int | str]:
    """Return the arguments that the callable may write to."""
    keys = list(mutates) if isinstance(mutates, range) else mutates
    expected = "positions and names of arguments, such as (0, 'out'), or True for all"
    found: bool | list[int | str] = checked("mutates", keys, _Mutates, expected)
    return found


def reference_of(expected: Any, rtol: object, atol: object, equal_nan: object, mutates: object) -> Reference:
    """Return the reference of a call, whose expected output is checked already."""
    number = "a number, at least 0, or None"
    return Reference(
        expected,
        rtol=checked("rtol", rtol, RelativeTolerance | None, number),
        atol=checked("atol", atol, AbsoluteTolerance | None, number),
        equal_nan=checked("equal_nan", equal_nan, bool, "True or False"),
        mutates=check_mutates(mutates),
    )


def check_static(given: Mapping[str, object], archs: object) -> None:
    """Check the kinds of the arguments of `static`; their values are checked against the kernel later.

    Args:
        given: `signature`, `constexprs` and `args`.
        archs: The architectures.
    """
    checked("archs", archs, list[str], "a tuple such as ('sm_90', 'sm_120')")
    for name, (kind, expected) in _STATIC.items():
        checked(name, given[name], kind, expected)
