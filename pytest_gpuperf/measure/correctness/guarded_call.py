"""Red zones: poisoned bytes around the tensors of a call, which show writes and reads out of bounds.

The function runs once more, on copies of its arguments. Each copy has the strides, the storage offset and
the alignment of its original, and lies between bytes that are NaN in floating types and -1 in integers. On
a GPU, what the call allocates lies between poisoned bytes, too: see `guarded_memory.py`, for which the
function runs once before.

A changed byte in a red zone is a write out of bounds. A read out of bounds gets NaN, so that the output
differs from that of other calls.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.correctness.call_tensors import PLAIN, mapped, named_tensors, tensors_of_arguments
from pytest_gpuperf.measure.correctness.comparison import valid_part
from pytest_gpuperf.measure.correctness.guarded_memory import (
    ALIGNMENT,
    GuardedPool,
    Neighbour,
    Zone,
    can_guard,
    memory_between,
    recorded_requests,
    written,
)
from pytest_gpuperf.measure.device import memory
from pytest_gpuperf.measure.device.memory import bytes_of, twin
from pytest_gpuperf.measure.device.originals import finish

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_gpuperf.measure.correctness.call_tensors import Arguments

ARGUMENT_BYTE = 0xFF
"""NaN in every floating type: a read out of bounds shows."""
LEAST_BYTES = 4096
MOST_BYTES = 1 << 20


def zone_bytes(size: int) -> int:
    """Return how wide a red zone is: as wide as the tensor, within bounds, so that a row too many shows."""
    wide = min(max(size, LEAST_BYTES), MOST_BYTES)
    return -(-wide // ALIGNMENT) * ALIGNMENT


@dataclass
class GuardedArguments:
    """Copies of a call's arguments between red zones.

    Tensors that cannot be copied without a difference that the function could see stay as they are: those
    with a history of gradients, sparse or pinned ones, and those of a class of their own.

    Args:
        args: Positional arguments.
        kwargs: Keyword arguments.
        names: Names of tensors in messages, by `id`.
    """

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    names: Mapping[int, str]
    zones: list[Zone] = field(default_factory=list)
    copies: dict[int, torch.Tensor] = field(default_factory=dict)
    """The copies, by the `id` of the original."""
    _storages: dict[int, torch.Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.args, self.kwargs = mapped(self._copy, (self.args, dict(self.kwargs)))

    def _copy(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or not _can_be_copied(value):
            return value
        if id(value) not in self.copies:
            self.copies[id(value)] = self._guarded(value)
        return self.copies[id(value)]

    def _guarded(self, tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in self._storages:
            self._storages[storage.data_ptr()] = self._guarded_storage(tensor)
        copied = twin(tensor, self._storages[storage.data_ptr()].untyped_storage())
        copied.grad = None if tensor.grad is None else tensor.grad.clone()
        return copied

    def _guarded_storage(self, tensor: torch.Tensor) -> torch.Tensor:
        """Copy the whole allocation: other arguments may be views of it."""
        storage = tensor.untyped_storage()
        size, width = storage.nbytes(), zone_bytes(storage.nbytes())
        before = width + storage.data_ptr() % ALIGNMENT
        buffer = torch.full((before + size + width,), ARGUMENT_BYTE, dtype=torch.uint8, device=tensor.device)
        # torch aligns by at least 64 bytes on a CPU, by 512 on a GPU.
        before -= buffer.data_ptr() % ALIGNMENT
        memory = memory_between(buffer, before, before + size)
        memory.copy_(bytes_of(storage))
        beside = Neighbour(self.names.get(id(tensor), "an argument"), tensor.element_size())
        self.zones += [
            Zone(buffer[:before], ARGUMENT_BYTE, after=beside),
            Zone(buffer[before + size :], ARGUMENT_BYTE, before=beside),
        ]
        return memory


def _can_be_copied(tensor: torch.Tensor) -> bool:
    return (
        type(tensor) in PLAIN
        and tensor.layout == torch.strided
        and tensor.device.type in ("cpu", "cuda")
        and tensor.untyped_storage().nbytes() > 0
        and (tensor.is_leaf or not tensor.requires_grad)
        # A kernel may read pinned memory of the host, whose copy would not be pinned.
        and not (tensor.is_conj() or tensor.is_neg() or tensor.is_quantized or tensor.is_pinned())
    )


@dataclass(frozen=True)
class Guarded:
    """The findings of a call between red zones."""

    outputs: Mapping[str, torch.Tensor] = field(default_factory=dict)
    """Copies of the outputs, without arguments that the function left alone, as a captured graph does."""
    writes: tuple[str, ...] = ()
    """Descriptions of the writes out of bounds."""

    def describe_writes(self) -> str:
        """Return the message of a failed check."""
        return "\n".join(("the function writes out of bounds:", *self.writes))

    def describe_reads(self, plain: Mapping[str, torch.Tensor]) -> str:
        """Return the message of an output that is NaN only between red zones; empty if none is.

        Args:
            plain: The outputs of another call.
        """
        for name, output in self.outputs.items():
            other = plain.get(name)
            output = output if other is None else valid_part(output, other)
            if other is None or output.shape != other.shape:
                continue
            if output.device.type == "meta" or output.dtype in memory.PACKED:
                continue
            count = int((output.isnan() & ~other.isnan()).sum())
            if count:
                return (
                    f"the function reads out of bounds: {count} of {output.numel()} elements of {name} "
                    "are NaN if NaN lies around the arguments"
                )
        return ""


def call_between_red_zones(
    fn: Callable[..., object], args: tuple[Any, ...], kwargs: Mapping[str, Any], arguments: Arguments
) -> Guarded:
    """Call a function between red zones. No finding if it does not take copies of its arguments.

    Args:
        fn: The function.
        args: Its positional arguments.
        kwargs: Its keyword arguments.
        arguments: The tensors among them.
    """
    found = tensors_of_arguments(args, kwargs).values()
    names = {id(tensor): name for tensors in found for name, tensor in tensors.items()}
    devices = [device for device in arguments.devices if device.type == "cuda"]
    try:
        pool = _pool_for(fn, args, kwargs, arguments, devices[0]) if devices else None
        with arguments.put_back():
            guarded = GuardedArguments(args, kwargs, names)
            with pool or nullcontext():
                value = fn(*guarded.args, **guarded.kwargs)
                finish(value)
            outputs = {} if value is None else dict(named_tensors(value, "output"))
            neighbours = {
                tensor.untyped_storage().data_ptr(): Neighbour(name, tensor.element_size())
                for name, tensor in outputs.items()
            }
            zones = pool.zones(neighbours) if pool else []
            writes = written([*guarded.zones, *zones])
            copies = {name: memory.copy(tensor) for name, tensor in outputs.items()}
    except GpuperfError:
        raise
    except Exception:
        # It works on the caller's own tensors, so it may know them by their addresses. Errors of kernels
        # come again.
        finish()
        return Guarded()
    if value is None:
        changed = {name: guarded.copies.get(id(tensor)) for name, tensor in arguments.written.items()}
        # The memory of the guarded arguments ends with their red zones.
        copies = {
            name: memory.copy(tensor)
            for name, tensor in changed.items()
            if tensor is not None and not memory.same_bits(tensor, arguments.written[name]).all()
        }
    return Guarded(copies, tuple(writes))


def _pool_for(
    fn: Callable[..., object],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    arguments: Arguments,
    device: torch.device,
) -> GuardedPool | None:
    """Return memory for the allocations of a call; None if they cannot be guarded."""
    if not can_guard():
        return None
    with arguments.put_back(), recorded_requests(device) as requests:
        finish(fn(*args, **kwargs))
    sizes = requests.at_once()
    if requests.captured or not GuardedPool.fits(device, sizes):
        return None
    return GuardedPool(device, sizes)
