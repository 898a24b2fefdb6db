"""Accuracy of a call with right outputs: error in ULP, next to that of the reference, and equal bits.

The exact values are those of the reference on float64 copies of the arguments.

The unit in the last place (ULP) of a number x with 2^e <= |x| < 2^(e+1) is 2^(e-p+1) in a type of p
significant bits (Goldberg 1991, "What every computer scientist should know about floating-point arithmetic",
section 1.2); below the smallest normal number it is the step between subnormal ones (Muller 2005, "On the
definition of ulp(x)"). Errors are measured in the ULP of the reference, so a correctly rounded output is
wrong by at most half of one.

Two figures complete each other. The largest error is that of one element, in its own ULP; in a sum that
cancels it is large for any order of the additions. The root mean square is that of all differences, in the
ULP of the root mean square of the reference: the normwise error of Higham 2002, "Accuracy and Stability of
Numerical Algorithms", section 6.2. Rounding of products to fewer bits shows in it whatever the data are.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from msgspec.structs import replace

from pytest_gpuperf.errors import show_repr
from pytest_gpuperf.measure.correctness.call_tensors import mapped, named_tensors
from pytest_gpuperf.measure.correctness.comparison import dtype_name, unravel
from pytest_gpuperf.measure.device.memory import free_bytes, same_bits
from pytest_gpuperf.measure.device.originals import finish
from pytest_gpuperf.records import Accuracy

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

MOST_APART_BITS = 4.0
"""Least number of bits on which a reference and its form in float64 agree. Below it the reference does
something else with other types, such as reading memory as the type that it expects."""
PIECE = 1 << 22
"""Elements that are compared at once: 32 MiB for each of a handful of float64 intermediates."""
PIECES = 4
"""Maximum number of pieces; a larger output is sampled."""
SAMPLE = 1 << 14
"""Elements in a row of a sample: a few rows of most outputs, so a fault of single blocks is seen."""
WIDE = (torch.float64, torch.complex128)
"""Types of an exact reference."""
MOST_BITS = 64.0
"""Bits on which equal numbers agree."""
LARGEST = 1e12
"""Largest figure that is kept, such as for an error where the reference is 0."""
WIDER = {
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float32: torch.float64,
    torch.complex32: torch.complex128,
    torch.complex64: torch.complex128,
}
"""Types of arguments that are copied. Those of 8 bits and fewer have scales of their own, and stay."""
FAST_FLOAT64 = frozenset({(7, 0), (8, 0), (9, 0), (10, 0)})
"""Compute capabilities with at least half as many float64 as float32 operations a clock; the others have 1/32
or less (CUDA C++ programming guide, "Throughput of native arithmetic instructions")."""
MOST_ELEMENTS = 1 << 22
"""Maximum number of elements of all arguments and outputs on other GPUs, and without one."""
MOST_MEMORY = 4
"""The copies may take this part of the free memory, one over it; the reference itself needs some, too."""
MOST_SECONDS = 1.0
"""Longest time of a reference that is called once more, in float64."""


def accuracy_of(
    runs: Sequence[Mapping[str, torch.Tensor]],
    reference: Mapping[str, torch.Tensor],
    widened: Callable[[], Mapping[str, torch.Tensor]] | None,
) -> Accuracy:
    """Measure the accuracy of outputs.

    Of several outputs the one with the largest root mean square error comes first, with those of the others.

    Args:
        runs: Outputs of two calls with the same arguments.
        reference: The reference's outputs by the same names, in the types that it returned.
        widened: Returns the reference's outputs in float64, in the same order; None if it cannot be called.
    """
    first, last = runs
    same = {name: bool(same_bits(first[name], last[name]).all()) for name in last}
    deterministic = all(same.values())
    floating = [name for name, output in last.items() if has_ulp(output)]
    if not floating:
        return Accuracy(same_bits=deterministic, note="no output is of a floating type")
    exact, note = _exact(reference, widened)
    found = [_of_output(name, last[name], reference[name], exact[name]) for name in floating]
    worst = max(found, key=lambda one: -1.0 if one.rms_ulp is None else one.rms_ulp)
    if not note and last[worst.output].dtype in WIDE:
        note = "there is no wider type than float64"
    others = tuple(replace(one, same_bits=same[one.output]) for one in found if one is not worst)
    return replace(worst, same_bits=deterministic, note=note or worst.note, others=others)


def _exact(
    reference: Mapping[str, torch.Tensor], widened: Callable[[], Mapping[str, torch.Tensor]] | None
) -> tuple[Mapping[str, torch.Tensor], str]:
    """Return the best reference that can be had, and why it is not in float64; empty if it is."""
    if all(tensor.dtype in WIDE for tensor in reference.values() if has_ulp(tensor)):
        return reference, ""
    if widened is None:
        return reference, "the reference is given as tensors"
    try:
        wide = dict(zip(reference, widened().values(), strict=True))
    except NotWidenedError as why:
        return reference, str(why)
    except ValueError:
        return reference, "the reference returns another number of tensors in float64"
    for name, tensor in reference.items():
        if has_ulp(tensor) and (why_not := _unlike(wide[name], tensor)):
            return reference, why_not
    return wide, ""


def _unlike(wide: torch.Tensor, given: torch.Tensor) -> str:
    """Return why a tensor is not the exact form of a given one; empty if it is."""
    if wide.dtype not in WIDE:
        return f"the reference returns {dtype_name(wide)} for float64"
    if wide.shape != given.shape or wide.device != given.device:
        return "the reference returns another shape for float64"
    error = error_of(given, wide, given.dtype)
    if error is not None and error.bits < MOST_APART_BITS:
        return "the reference returns other values for float64"
    return ""


def _of_output(name: str, output: torch.Tensor, given: torch.Tensor, exact: torch.Tensor) -> Accuracy:
    error = error_of(output, exact, output.dtype)
    own = None
    if given.dtype == output.dtype and exact is not given:
        own = error_of(given, exact, output.dtype)
    if error is None:
        return Accuracy(output=name, note="no element is a number")
    return Accuracy(
        reference=dtype_name(exact),
        output=name,
        dtype=dtype_name(output),
        elements=error.elements,
        max_ulp=error.max_ulp,
        # A complex number is two.
        max_ulp_index=unravel(error.max_at, (*output.shape, 2) if output.is_complex() else (*output.shape,)),
        rms_ulp=error.rms_ulp,
        bits=error.bits,
        reference_rms_ulp=own.rms_ulp if own else None,
    )


@dataclass(frozen=True)
class Error:
    """Error of one output against its reference."""

    max_ulp: float
    max_at: int
    """Index of the largest error into the flattened output."""
    rms_ulp: float
    bits: float
    """Significant bits on which output and reference agree: the root mean square error is 2^-bits of the
    root mean square of the reference."""
    elements: int
    """Number of elements compared."""


def has_ulp(tensor: torch.Tensor) -> bool:
    """Return True for a floating or complex type."""
    return tensor.is_floating_point() or tensor.is_complex()


def ulp(values: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return the ULP in `dtype` of each value, which are float64, finite and at most `dtype`'s largest."""
    info = torch.finfo(dtype)
    exponent_bits = 0x7FF << 52
    powers = values.abs().clamp(min=info.smallest_normal).view(torch.int64) & exponent_bits
    return powers.view(torch.float64) * info.eps


def error_of(actual: torch.Tensor, reference: torch.Tensor, dtype: torch.dtype) -> Error | None:
    """Measure the error of an output.

    NaN in either is left out: the comparison by tolerance judges it. Infinity counts as the largest number.

    Args:
        actual: The output.
        reference: The exact values, of the same shape; mostly of a wider type.
        dtype: Type of the ULP: that of the output under test.

    Returns:
        None if there is no element to compare.
    """
    sums = _Sums(dtype)
    flat = [_parts(tensor) for tensor in (actual, reference)]
    elements = flat[0].numel()
    if elements <= PIECE * PIECES:
        for at in range(0, elements, PIECE):
            sums.add(at, 0, *(tensor[at : at + PIECE].unsqueeze(0) for tensor in flat))
        return sums.error()
    rows = PIECE // SAMPLE
    step = (elements - SAMPLE) // (rows * PIECES - 1)
    samples = [tensor.unfold(0, SAMPLE, step)[: rows * PIECES] for tensor in flat]
    for row in range(0, rows * PIECES, rows):
        sums.add(row * step, step, *(sample[row : row + rows] for sample in samples))
    return sums.error()


def _parts(tensor: torch.Tensor) -> torch.Tensor:
    """Return all numbers in a row; a complex one is two."""
    return (torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor).reshape(-1)


@dataclass
class _Sums:
    """Goes over an output in pieces; nothing waits for the GPU before the end."""

    dtype: torch.dtype
    elements: int = 0
    _places: list[tuple[int, int, int]] = field(default_factory=list)
    _found: list[torch.Tensor] = field(default_factory=list)

    def add(self, start: int, step: int, actual: torch.Tensor, reference: torch.Tensor) -> None:
        """Add rows of elements: the first begins at `start`, and each one `step` behind the former."""
        largest = torch.finfo(self.dtype).max
        actual, reference = (tensor.to(torch.float64) for tensor in (actual, reference))
        known = ~(actual.isnan() | reference.isnan())
        actual, reference = (
            tensor.where(known, 0.0).clamp(-largest, largest) for tensor in (actual, reference)
        )
        errors = (actual - reference).abs()
        worst, at = (errors / ulp(reference, self.dtype)).reshape(-1).max(0)
        found = [worst, at, errors.square().sum(), reference.square().sum(), known.sum()]
        self._places.append((start, step, actual.shape[1]))
        self._found.append(torch.stack([value.to(torch.float64) for value in found]))
        self.elements += actual.numel()

    def error(self) -> Error | None:
        """Return the figures of all pieces; None if there is no number in any."""
        rows = torch.stack(self._found).tolist() if self._found else []
        count = sum(found[4] for found in rows)
        if not count:
            return None
        piece = max(range(len(rows)), key=lambda index: rows[index][0])
        start, step, width = self._places[piece]
        row, column = divmod(int(rows[piece][1]), width)
        rms_error, rms = (math.sqrt(sum(found[index] for found in rows) / count) for index in (2, 3))
        reference = self._found[0].new_tensor([min(rms, torch.finfo(self.dtype).max)])
        return Error(
            max_ulp=min(rows[piece][0], LARGEST),
            max_at=start + row * step + column,
            rms_ulp=min(rms_error / float(ulp(reference, self.dtype)), LARGEST),
            bits=_bits(rms_error, rms),
            elements=self.elements,
        )


def _bits(rms_error: float, rms: float) -> float:
    if not rms_error:
        return MOST_BITS
    return min(MOST_BITS, max(0.0, math.log2(rms / rms_error))) if rms else 0.0


class NotWidenedError(Exception):
    """The reference cannot be had in float64; the message says why."""


def widened_reference(
    expected: Callable[..., object],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    written: Mapping[str, torch.Tensor],
    outputs: Mapping[str, torch.Tensor],
) -> object:
    """Call a reference on float64 copies of its floating arguments.

    The caller's arguments and random numbers stay as they are.

    Args:
        expected: The reference.
        args: Its positional arguments.
        kwargs: Its keyword arguments.
        written: Arguments that it may write to.
        outputs: Its outputs in their own types, for the memory.

    Returns:
        Its result; if that is None, the copies that it may have written to.

    Raises:
        NotWidenedError: It failed, there is not enough memory, or it would take too long.
    """
    made: dict[int, torch.Tensor] = {}

    def copied(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        if id(value) not in made:
            made[id(value)] = _copied(value)
        return made[id(value)]

    tensors = dict(named_tensors([*args, dict(kwargs)], "argument", argument=True))
    narrow = [tensor for tensor in tensors.values() if tensor.dtype in WIDER]
    if not narrow and not isinstance(expected, torch.nn.Module):
        raise NotWidenedError("no argument has a type that float64 is wider than")
    _check_size(narrow, list(outputs.values()))
    devices = {tensor.device for tensor in tensors.values() if tensor.is_cuda}
    try:
        with torch.random.fork_rng(sorted(device.index for device in devices)):
            wide_args, wide_kwargs = mapped(copied, (args, dict(kwargs)))
            if isinstance(expected, torch.nn.Module):
                expected = copy.deepcopy(expected).double()
            value = expected(*wide_args, **wide_kwargs)
            finish(value)
        return [copied(tensor) for tensor in written.values()] if value is None else value
    except torch.cuda.OutOfMemoryError:
        raise NotWidenedError("not enough memory for the reference in float64") from None
    except Exception as error:  # a stranger's function
        if "CUDA error" in str(error):
            raise
        why = show_repr(str(error).partition("\n")[0], 80)
        raise NotWidenedError(
            f"the reference does not take float64 ({type(error).__name__}: {why})"
        ) from None


def _check_size(arguments: list[torch.Tensor], outputs: list[torch.Tensor]) -> None:
    elements = sum(tensor.numel() for tensor in (*arguments, *outputs))
    devices = {tensor.device for tensor in (*arguments, *outputs) if tensor.is_cuda}
    for device in devices:
        free = free_bytes(device)
        if 8 * elements > free / MOST_MEMORY:
            raise NotWidenedError(
                f"a reference in float64 takes {8 * elements / 1e9:.1f} GB of {free / 1e9:.1f} GB"
            )
    slow = [one for one in devices if torch.cuda.get_device_capability(one) not in FAST_FLOAT64]
    if (slow or not devices) and elements > MOST_ELEMENTS:
        where = "this GPU" if slow else "a CPU"
        raise NotWidenedError(f"float64 is slow on {where}, and there are {elements:,} elements")


def _copied(tensor: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        made = tensor.to(WIDER[tensor.dtype]) if tensor.dtype in WIDER else tensor.clone()
    return made.requires_grad_(tensor.requires_grad)
