"""The tensors of a call, and the same call on copies of them at other places in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from msgspec.structs import replace

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.correctness.call_tensors import tensors_of_arguments
from pytest_gpuperf.measure.device.memory import bytes_of, free_bytes, twin
from pytest_gpuperf.measure.trees import mapped, values_in

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_gpuperf.records.call import Call

PLAIN = (torch.Tensor, torch.nn.Parameter)
"""Tensors without rules of their own."""
_WITHOUT_TENSORS = (int, float, complex, str, bytes, type(None), torch.dtype, torch.device, torch.layout)


def tensors_of(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """Return the tensors of torch on the GPU among arguments, by name."""
    return {
        name: one
        for found in tensors_of_arguments(args, kwargs).values()
        for name, one in found.items()
        if type(one) in PLAIN and one.numel() and on_gpu(one)
    }


def on_gpu(tensor: torch.Tensor) -> bool:
    """Return True for memory of the GPU: a graph has copied values of the host."""
    return tensor.is_cuda


def copies(tree: Any, made: dict[int, torch.UntypedStorage] | None = None) -> Any:
    """Copy the tensors in tuples, lists and dicts to other addresses, with their strides and offsets.

    Args:
        tree: The arguments.
        made: Copies by address: tensors that share memory share it afterwards.
    """
    made = {} if made is None else made

    def copy(value: Any) -> Any:
        if type(value) not in PLAIN or value.layout != torch.strided or not on_gpu(value):
            return value
        storage = value.untyped_storage()
        if storage.data_ptr() not in made:
            made[storage.data_ptr()] = bytes_of(storage).clone().untyped_storage()
        other = twin(value, made[storage.data_ptr()])
        if value.is_leaf and value.grad is not None:
            other.grad = copy(value.grad)
        return other

    return mapped(copy, tree)


def copied_call(call: Call) -> Call:
    """Return a call with copies of its tensors at other addresses.

    Returns:
        The call itself if there is too little memory, or if it might do other work on copies: an argument is
        part of a graph of autograd, is a view that conjugates or negates, or may know the tensors.
    """
    if not all(map(_is_copied_whole, values_in((call.args, dict(call.kwargs))))):
        return call
    storages = {one.untyped_storage() for one in tensors_of(call.args, call.kwargs).values()}
    try:
        refuse_little_memory(sum({one.data_ptr(): one.nbytes() for one in storages}.values()))
    except GpuperfError:
        return call
    made: dict[int, torch.UntypedStorage] = {}
    return replace(call, args=copies(call.args, made), kwargs=copies(dict(call.kwargs), made))


class CallElsewhere:
    """A call on copies of its tensors at other places in memory; see `copied_call`."""

    def __init__(self, call: Call) -> None:
        self._copied = copied_call(call)
        own, others = (tensors_of(one.args, one.kwargs) for one in (call, self._copied))
        pairs = {
            tensor.untyped_storage().data_ptr(): (tensor.untyped_storage(), others[name].untyped_storage())
            for name, tensor in own.items()
        }
        self._pairs = [(bytes_of(one), bytes_of(other)) for one, other in pairs.values()]

    def __call__(self) -> Any:
        """Call it there."""
        return self._copied()

    def take(self) -> None:
        """Write the present values of the call's own tensors into the copies."""
        for own, other in self._pairs:
            other.copy_(own)

    def give(self) -> None:
        """Write the values of the copies into the call's own tensors."""
        for own, other in self._pairs:
            own.copy_(other)


def _is_copied_whole(value: Any) -> bool:
    if type(value) not in PLAIN:
        return isinstance(value, _WITHOUT_TENSORS)
    alone = value.is_leaf and value.grad is None and not vars(value)
    return alone and value.layout == torch.strided and not (value.is_conj() or value.is_neg())


def refuse_little_memory(size: int) -> None:
    """Refuse to copy if less than twice the size is free on the GPU.

    Raises:
        GpuperfError: It is not.
    """
    if not torch.cuda.is_available():
        return
    free = free_bytes()
    if free < 2 * size:
        raise GpuperfError(
            f"{free / 2**30:.3g} GiB are free on the GPU",
            expected=f"{2 * size / 2**30:.3g} GiB, twice the tensors that would be copied",
        )
