"""A reference in float64: the same callable on float64 copies of the arguments."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import torch

from pytest_gpuperf.errors import show_repr
from pytest_gpuperf.measure.correctness.arguments import named_tensors
from pytest_gpuperf.measure.device.memory import free_bytes
from pytest_gpuperf.measure.device.synchronisation import finish
from pytest_gpuperf.measure.trees import mapped

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

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
