"""Compare the output of a kernel with a reference, on memory that was poisoned before.

The function under test is called on the caller's own tensors, so that strides and alignment are those of the
real call; the former values of the tensors are restored after each call. The calls are:

1. The function as it is. Compilation and autotuning happen here; the output is not compared.
2. The function twice, the second time between red zones: see `guarded_call.py`.
3. On a GPU, the function twice, the second time while the GPU is held: see `late_writes.py`.
4. The function twice, each time after a rehearsal, with free memory filled with one byte pattern and then
   with another. Both outputs have to agree with the reference; an element that holds the pattern both times
   was never written.
5. The reference, on the same values.
6. If the outputs are arguments and the reference is a callable, both twice more on arguments that hold the
   patterns themselves: memory that the caller allocated is not free memory.

A function that returns the result of a former call is found after the timing
(`pytest_gpuperf/measure/verification`). Not found is one that leaves elements unwritten in
memory of another library (JAX, CuPy): only free memory of torch holds the patterns. Each call ends when the
whole device has finished, since other libraries have streams of their own.

At most three copies of the outputs are alive (the reference's and those of both runs), plus a copy of the
arguments and the memory of the current call; the comparison goes over them in pieces.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from msgspec.structs import replace

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.correctness.accuracy import (
    MOST_SECONDS,
    NotWidenedError,
    accuracy_of,
    widened_reference,
)
from pytest_gpuperf.measure.correctness.call_tensors import (
    Arguments,
    OutputMemory,
    argument_bytes,
    copied_outputs,
    moved,
    named_tensors,
)
from pytest_gpuperf.measure.correctness.comparison import (
    ReferenceWithCheck,
    Tolerance,
    compare,
    copy_of,
    dtype_name,
    low_signal,
    merge,
    never_written,
    valid_part,
)
from pytest_gpuperf.measure.correctness.guarded_call import Guarded, call_between_red_zones
from pytest_gpuperf.measure.correctness.late_writes import late_outputs, strange_types, types_in
from pytest_gpuperf.measure.device.memory import PATTERNS, holds, poisoned_memory
from pytest_gpuperf.measure.device.originals import ProcessState, finish, library_unchanged, now
from pytest_gpuperf.records import Correctness

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

__all__ = ["Reference", "check"]

Reference: TypeAlias = "Callable[..., object] | torch.Tensor | Sequence[torch.Tensor]"
"""Expected output: a callable that takes the same arguments, or the tensors themselves."""

_Outputs: TypeAlias = dict[str, torch.Tensor]
"""Copies of a call's outputs, by their name in messages."""


class _ArgumentChangedError(Exception):
    """The function under test wrote to an argument that it may not write to."""


def check(
    fn: Callable[..., object],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    *,
    expected: Reference,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    mutates: bool | Collection[int | str] = (),
    figures: bool = True,
) -> Correctness:
    """Compare the output of `fn(*args, **kwargs)` with a reference.

    The outputs of `fn` are the tensors it returns, or arrays of another library (JAX, CuPy, numba-cuda,
    NumPy): one, or tuples, lists and dicts of them. If it returns None, they are the arguments named by
    `mutates`, after the call. The same rule applies to a callable reference separately: an in-place kernel
    can be checked against a function that works in place or against one that returns the value. If `fn`
    returns a value and writes to arguments as well, only the value is compared. The check that an argument is
    written in full needs a callable reference and floating types: NaN in place of an index could send a
    kernel anywhere.

    An output fails if its shape or device differs from the reference's, if it holds NaN, if an element was
    never written, or if its type differs. The reference may have a wider floating type (a float64 reference
    for a bfloat16 kernel). Types without arithmetic, such as float4_e2m1fn_x2, are compared by their bits.

    Args:
        fn: The function under test.
        args: Its positional arguments. Tensors in them hold the same values afterwards as before, and so do
            their gradients.
        kwargs: Its keyword arguments, likewise.
        expected: The reference: a callable that takes the same arguments, or its result. The own check of a
            `ReferenceWithCheck` one decides in place of the tolerance.
        rtol: Relative tolerance. An element is close if |actual - expected| <= atol + rtol * |expected|.
        atol: Absolute tolerance. With neither given, those of `torch.testing.assert_close` for the types.
        equal_nan: True if NaN is right at places where the reference has NaN too.
        mutates: Positions, or names of keyword arguments, that `fn` may write to; True for all.
        figures: True to measure sizes and accuracy of a right output.

    Returns:
        The largest finite differences and the reason of a failure.

    Raises:
        GpuperfError: One tolerance without the other, an unknown argument in `mutates`, no output tensor, or
            a quantised one; or `fn` replaces a function or changes a setting of torch.
    """
    tolerance = Tolerance(rtol, atol, equal_nan)
    try:
        with library_unchanged():
            call = _Call(args, kwargs, mutates, judges=isinstance(expected, ReferenceWithCheck))
            with call.settings_put_back():
                return _check(call, fn, expected, tolerance, figures=figures)
    except _ArgumentChangedError as changed:
        return Correctness(passed=False, failure=str(changed))


def _check(
    call: _Call, fn: Callable[..., object], expected: Reference, tolerance: Tolerance, *, figures: bool
) -> Correctness:
    result = _check_outputs(call, fn, expected, tolerance, figures=figures)
    if isinstance(expected, ReferenceWithCheck):
        return result
    if result.passed and callable(expected) and call.puts_out_arguments:
        return _check_arguments_written(call, fn, expected) or result
    return result


def _check_outputs(
    call: _Call, fn: Callable[..., object], expected: Reference, tolerance: Tolerance, *, figures: bool
) -> Correctness:
    # Out of bounds lie the arguments, too: a write there comes before all else.
    names = list(call.run(fn, may_change_arguments=True))
    guarded = call.run_between_red_zones(fn)
    if guarded.writes:
        return Correctness(passed=False, failure=guarded.describe_writes())
    if late := call.late_outputs(fn):
        return Correctness(passed=False, failure=late)
    runs = [call.run(fn, byte) for byte in PATTERNS]
    # Only now, so that the function cannot find the expected output in memory.
    reference = call.refer(expected)
    failure = call.strange_output()
    is_alike = len(names) == len(reference)
    if not (failure or is_alike or isinstance(expected, ReferenceWithCheck)):
        failure = f"the function returned {', '.join(names)}; the reference returned {', '.join(reference)}"
    if failure:
        return Correctness(passed=False, failure=failure)

    results = []
    reference = _matched(reference, names) if is_alike else {}
    for name, target in reference.items():
        unwritten = _held([run[name] for run in runs])
        part = valid_part(unwritten, target)
        # All that is written lies in it: the rest is padding.
        if part.numel() - part.sum() == unwritten.numel() - unwritten.sum():
            unwritten = part
            for run in runs:
                run[name] = valid_part(run[name], target)
        of_runs = [compare(run[name], target, tolerance, name, unwritten) for run in runs]
        results.append(next((result for result in of_runs if not result.passed), of_runs[-1]))
    result = merge(results) if results else Correctness(passed=True)
    if isinstance(expected, ReferenceWithCheck):
        # Outputs of another shape or type have no figures.
        is_alike = is_alike and all(one.passed or one.mismatched for one in results)
        why = call.objection(expected)
        result = replace(result, passed=not why, failure=why)
    if reads := guarded.describe_reads(runs[0]):
        return replace(result, passed=False, failure=f"{reads}\n{result.failure}".strip())
    if not result.passed or not figures or not is_alike:
        return result
    little = (low_signal(name, one, runs[0][name].dtype, tolerance) for name, one in reference.items())
    widened = partial(call.refer_widened, expected, reference) if callable(expected) else None
    return replace(
        call.sized(result),
        accuracy=accuracy_of(runs, reference, widened),
        low_signal=next(filter(None, little), ""),
    )


def _check_arguments_written(
    call: _Call, fn: Callable[..., object], expected: Callable[..., object]
) -> Correctness | None:
    """Return the failure of an argument that was not written in full, None if all were.

    An element that the reference leaves alone too, or that depends on its former value, may hold a pattern.
    """
    first, second = (_left_alone(call, fn, expected, byte) for byte in PATTERNS)
    for name, unwritten in first.items():
        unwritten &= second[name]
        if unwritten.any():
            return Correctness(
                passed=False,
                dtype=dtype_name(call.arguments.written[name]),
                elements=unwritten.numel(),
                mismatched=int(unwritten.sum()),
                failure=f"{name} differs from the reference: {never_written(unwritten)}",
            )
    return None


def _left_alone(
    call: _Call, fn: Callable[..., object], expected: Callable[..., object], byte: int
) -> _Outputs:
    """Mark elements of arguments filled with `byte` that still hold it, except if the reference does."""
    outputs = call.run(fn, byte, fill_arguments=True)
    reference = _matched(call.refer(expected, byte), outputs)
    # A pattern that a wider reference kept, or added to, is the pattern again in the type of the output.
    return {
        name: holds(output, byte) & ~holds(reference[name].to(output.dtype), byte)
        for name, output in outputs.items()
    }


def _held(outputs: Sequence[torch.Tensor]) -> torch.Tensor:
    """Mark the elements that hold the patterns of their runs in all outputs: they were never written."""
    held = torch.ones_like(outputs[0], dtype=torch.bool)
    for output, byte in zip(outputs, PATTERNS, strict=True):
        held &= holds(output, byte)
    return held


def _matched(reference: _Outputs, names: Collection[str]) -> _Outputs:
    """Map the reference's tensors to the names of the outputs: by name if they agree, else in order."""
    if reference.keys() == set(names):
        return reference
    return dict(zip(names, reference.values(), strict=True))


class _Call:
    """Runs functions on the caller's arguments and restores their values after each run."""

    def __init__(
        self,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        mutates: bool | Collection[int | str],
        *,
        judges: bool,
    ) -> None:
        self._args = args
        self._kwargs = kwargs
        self.arguments = Arguments(args, kwargs, mutates)
        self._devices = self.arguments.devices
        self._output_devices: set[torch.device] = set()
        self._memory = OutputMemory((), ())
        self._reference_s = 0.0
        self.puts_out_arguments = False
        """True if the function under test returned None."""
        self._usual = {*types_in(args), *types_in(dict(kwargs))}
        """Types that outputs may have."""
        self._strange: dict[type, str] = {}
        self._judges = judges
        self._values: list[object] = []
        self._state = ProcessState()

    def run(
        self,
        fn: Callable[..., object],
        byte: int | None = None,
        *,
        fill_arguments: bool = False,
        may_change_arguments: bool = False,
    ) -> _Outputs:
        """Return the outputs of the function under test, with memory filled with `byte` before."""
        if byte is not None:
            with self.arguments.put_back():
                # A rehearsal: it leaves all memory of the call within reach of the poison. Memory of earlier
                # calls may hold copies of outputs by now.
                finish(fn(*self._args, **self._kwargs))
                self._refuse_changed_settings()
        with self.arguments.put_back():
            if byte is not None and fill_arguments:
                self.arguments.fill_written(byte)
            with poisoned_memory(byte, self._devices):
                value = fn(*self._args, **self._kwargs)
                # Libraries with streams of their own return before their kernels end.
                finish(value)
            # What follows, the comparisons too, depends on the settings.
            self._refuse_changed_settings()
            self.puts_out_arguments = value is None
            self._strange |= dict(strange_types(value))
            outputs = self._outputs(value, "the function")
            if self._judges and byte is not None:
                self._values.append(copy_of(value))
            self._memory = OutputMemory(value, self.arguments.addresses)
            del value
            self._output_devices = {output.device for output in outputs.values()}
            self._devices = self._devices | self._output_devices
            changed = "" if may_change_arguments else self.arguments.change()
        if changed:
            raise _ArgumentChangedError(changed)
        return outputs

    @contextmanager
    def settings_put_back(self) -> Iterator[None]:
        """Leave the process with the settings that the function found, whatever happens in the block."""
        try:
            yield
        finally:
            self._state.change()

    def _refuse_changed_settings(self) -> None:
        if change := self._state.change():
            raise GpuperfError(
                f"the callable has changed {change}, on which its reference depends",
                expected="a callable that leaves it as it is",
                next_step="if the test is meant to run so, set it before the first call",
            )

    @contextmanager
    def _of_the_test(self) -> Iterator[None]:
        """Let code of the test's author change settings: it is not the function under test."""
        yield
        self._state = ProcessState()

    def run_between_red_zones(self, fn: Callable[..., object]) -> Guarded:
        """Call the function under test between poisoned bytes."""
        return call_between_red_zones(fn, self._args, self._kwargs, self.arguments)

    def late_outputs(self, fn: Callable[..., object]) -> str:
        """Describe outputs that are not complete if the current stream goes on; empty if there are none."""
        if all(device.type != "cuda" for device in self._devices):
            return ""
        return late_outputs(fn, self._args, self._kwargs, self.arguments)

    def objection(self, judged: ReferenceWithCheck) -> str:
        """Return why the reference's own check refuses an output of a run; empty if it does not."""
        with self._of_the_test():
            return next(filter(None, (judged.objection(self._args, value) for value in self._values)), "")

    def sized(self, result: Correctness) -> Correctness:
        """Add the sizes of arguments and outputs; those of outputs are of the last call."""
        memory = self._memory
        return replace(
            result,
            argument_bytes=argument_bytes(self._args, self._kwargs),
            output_bytes=memory.bytes,
            written_bytes=memory.new_bytes(),
        )

    def refer(self, expected: Reference, byte: int | None = None) -> _Outputs:
        """Return the outputs of the reference, on arguments filled with `byte` if one is given."""
        if not callable(expected):
            return self._reference(expected)
        with self.arguments.put_back():
            if byte is not None:
                self.arguments.fill_written(byte)
            start = now()
            with self._of_the_test():
                value = expected(*self._args, **self._kwargs)
                finish(value)
            self._reference_s = now() - start
            return self._reference(value)

    def refer_widened(self, expected: Callable[..., object], outputs: _Outputs) -> _Outputs:
        """Return the outputs of the reference on float64 copies of the arguments.

        Raises:
            NotWidenedError: It does not work there.
        """
        if self._reference_s > MOST_SECONDS:
            raise NotWidenedError(f"the reference takes {self._reference_s:.1f} s, and in float64 longer")
        with self._of_the_test():
            value = widened_reference(expected, self._args, self._kwargs, self.arguments.written, outputs)
        return dict(named_tensors(self._on_device(value), "output"))

    def strange_output(self) -> str:
        """Describe an output of a type that neither arguments nor reference have; empty if there is none."""
        return next((text for kind, text in self._strange.items() if kind not in self._usual), "")

    def _reference(self, value: object) -> _Outputs:
        self._usual.update(types_in(value))
        return self._outputs(self._on_device(value), "the reference")

    def _on_device(self, value: object) -> object:
        # NumPy computes the reference of an array on the GPU in the memory of the host.
        on = next(iter(self._output_devices), None)
        return value if on is None else moved(value, on)

    def _outputs(self, value: object, who: str) -> _Outputs:
        return copied_outputs(value, who, self.arguments.written)
