"""Begin of each measurement: its arguments are checked before anything runs, and its result is kept."""

from __future__ import annotations

import difflib
import inspect
import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import wraps
from numbers import Real
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import pytest
from msgspec.structs import replace

from pytest_gpuperf.errors import GpuperfError, NoGpuError, show_repr
from pytest_gpuperf.records import Measurement
from pytest_gpuperf.records.call import Call, Reference
from pytest_gpuperf.session.seeds import seed_of
from pytest_gpuperf.settings.options import MAX_TIMEOUT_S, OPTIONS

if TYPE_CHECKING:
    from pytest_gpuperf.session.marker import ItemState
    from pytest_gpuperf.session.runner import CallSource, Runner

Given = ParamSpec("Given")
Returned = TypeVar("Returned")
Own = TypeVar("Own", bound="Recorder")
MODES = next(option.choices for option in OPTIONS if option.name == "mode")
LONGEST_LABEL = 200
_SURROGATE = re.compile("[\ud800-\udfff]")
"""Half of a character, which no file can hold."""
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
ALIKE = 0.8
"""Likeness, by `difflib`, from which on a keyword is taken for a misspelt one."""


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
            f"inputs={show_repr(inputs)}",
            expected="a callable that takes a seed and returns the arguments",
        )
    if args or kwargs:
        raise GpuperfError(
            "both arguments and inputs=",
            expected="one of them: inputs= makes all arguments",
            next_step="let the callable that inputs= names return them too",
        )


def check_label(label: object) -> None:
    """Check the name of a measurement: a key in files, and a part of a line in reports."""
    if not isinstance(label, str) or not 0 < len(label) <= LONGEST_LABEL or _SURROGATE.search(label):
        raise GpuperfError(
            f"label={show_repr(label)}", expected=f"a text of 1 to {LONGEST_LABEL} Unicode characters"
        )


def check_mode(mode: object, default: str) -> str:
    """Return the timing mode; the default for None."""
    if mode is not None and not (isinstance(mode, str) and mode in MODES):
        raise GpuperfError(f"mode={show_repr(mode)}", expected=f"one of {', '.join(MODES)}")
    return default if mode is None else str(mode)


def check_count(name: str, value: Any) -> int:
    """Return a number of bytes or operations; it may be numpy's, or a float without a fraction."""
    count = -1
    if not isinstance(value, (bool, str, bytes, bytearray)):
        try:
            count = int(value)
            if count != value:
                count = -1
        except Exception:  # `int` and `==` are the value's own
            count = -1
    if not 0 <= count <= LARGEST_COUNT:
        raise GpuperfError(
            f"{name}={show_repr(value)}",
            expected=f"how many {name} one call has, a whole number from 0 to {LARGEST_COUNT}",
        )
    return count


def check_tolerance(name: str, value: object) -> float | None:
    """Return a tolerance of a comparison; None for the default."""
    if value is None:
        return None
    number = math.nan
    if isinstance(value, Real) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
    if not 0 <= number < math.inf:
        raise GpuperfError(f"{name}={show_repr(value)}", expected="a number, at least 0, or None")
    return number


def check_flag(name: str, value: object) -> bool:
    """Return True or False, which may be numpy's."""
    if type(value).__name__ not in ("bool", "bool_"):
        raise GpuperfError(f"{name}={show_repr(value)}", expected="True or False")
    return bool(value)


def check_expected(value: Any) -> Any:
    """Return an expected output; a replay compares nothing, and must not pass what fails on a GPU."""
    if not callable(value) and not _has_arrays(value):
        raise GpuperfError(
            f"expected={show_repr(value)}",
            expected="a reference callable, or the expected tensors",
        )
    return value


def _has_arrays(value: Any) -> bool:
    if isinstance(value, (tuple, list, Mapping)):
        return any(map(_has_arrays, value.values() if isinstance(value, Mapping) else value))
    return hasattr(value, "__dlpack__") or hasattr(value, "__cuda_array_interface__")


def check_callable(name: str, value: Any) -> Callable[..., Any]:
    """Return a callable."""
    if not callable(value):
        raise GpuperfError(
            f"{name}={show_repr(value)}", expected="a callable: the arguments differ from call to call"
        )
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
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= MAX_TIMEOUT_S:
        raise GpuperfError(f"seconds={show_repr(value)}", expected="a number of seconds above 0")
    return float(value)


def check_mutates(mutates: object) -> bool | Collection[int | str]:
    """Return the arguments that the callable may write to."""
    if isinstance(mutates, bool):
        return mutates
    keys: list[Any] = list(mutates) if isinstance(mutates, (list, tuple, set, frozenset, range)) else [None]
    if not all(isinstance(key, str) or (type(key) is int and 0 <= key < 2**31) for key in keys):
        raise GpuperfError(
            f"mutates={show_repr(mutates)}",
            expected="positions and names of arguments, such as (0, 'out'), or True for all",
        )
    return keys


def reference_of(expected: Any, rtol: object, atol: object, equal_nan: object, mutates: object) -> Reference:
    """Return the reference of a call, whose expected output is checked already."""
    return Reference(
        expected,
        rtol=check_tolerance("rtol", rtol),
        atol=check_tolerance("atol", atol),
        equal_nan=check_flag("equal_nan", equal_nan),
        mutates=check_mutates(mutates),
    )


def check_static(given: Mapping[str, object], archs: object) -> None:
    """Check the kinds of the arguments of `static`; their values are checked against the kernel later.

    Args:
        given: `signature`, `constexprs` and `args`.
        archs: The architectures.
    """
    if not _is_list(archs) or not _are_texts(archs):
        raise GpuperfError(f"archs={show_repr(archs)}", expected="a tuple such as ('sm_90', 'sm_120')")
    signature, constexprs, args = (given[name] for name in ("signature", "constexprs", "args"))
    if signature is not None and not (isinstance(signature, Mapping) and _are_texts(signature.values())):
        raise GpuperfError(
            f"signature={show_repr(signature)}", expected="types by name: {'x_ptr': '*fp32', 'n': 'i32'}"
        )
    if constexprs is not None and not (isinstance(constexprs, Mapping) and _are_texts(constexprs)):
        raise GpuperfError(f"constexprs={show_repr(constexprs)}", expected="values by name: {'BLOCK': 128}")
    if args is not None and not (_is_list(args) or (isinstance(args, Mapping) and _are_texts(args))):
        raise GpuperfError(
            f"args={show_repr(args)}", expected="the arguments of a launch: a tuple, or values by name"
        )


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes, bytearray))


def _are_texts(values: Any) -> bool:
    return all(isinstance(value, str) for value in values)
