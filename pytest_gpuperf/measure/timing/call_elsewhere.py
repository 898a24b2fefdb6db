"""The tensors of a call, and the same call on copies of them at other places in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from msgspec.structs import replace

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.correctness.arguments import named_tensors
from pytest_gpuperf.measure.device.memory import bytes_of, free_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_gpuperf.records.call import Call

PLAIN = (torch.Tensor, torch.nn.Parameter)
"""Tensors without rules of their own."""
_WITHOUT_TENSORS = (int, float, complex, str, bytes, type(None), torch.dtype, torch.device, torch.layout)


def tensors_of(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """Return the tensors of torch on the GPU among arguments, by name."""
    found: dict[str, torch.Tensor] = {}
    for key, value in [*enumerate(args), *kwargs.items()]:
        found.update(named_tensors(value, f"argument {key}", argument=True))
    return {name: one for name, one in found.items() if type(one) in PLAIN and one.numel() and on_gpu(one)}


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
    if type(tree) is dict:
        return {key: copies(value, made) for key, value in tree.items()}
    if type(tree) in (tuple, list):
        return type(tree)(copies(value, made) for value in tree)
    if type(tree) not in PLAIN or tree.layout != torch.strided or not on_gpu(tree):
        return tree
    storage = tree.untyped_storage()
    if storage.data_ptr() not in made:
        made[storage.data_ptr()] = bytes_of(storage).clone().untyped_storage()
    other = alias(tree, made[storage.data_ptr()])
    if isinstance(tree, torch.nn.Parameter):
        other = torch.nn.Parameter(other, tree.requires_grad)
    elif tree.requires_grad:
        other.requires_grad_()
    if tree.is_leaf and tree.grad is not None:
        other.grad = copies(tree.grad, made)
    return other


def copied_call(call: Call) -> Call:
    """Return a call with copies of its tensors at other addresses.

    Returns:
        The call itself if there is too little memory, or if it might do other work on copies: an argument is
        part of a graph of autograd, is a view that conjugates or negates, or may know the tensors.
    """
    if not all(map(_is_copied_whole, (call.args, dict(call.kwargs)))):
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


def _is_copied_whole(tree: Any) -> bool:
    if type(tree) is dict:
        return all(map(_is_copied_whole, tree.values()))
    if type(tree) in (tuple, list):
        return all(map(_is_copied_whole, tree))
    if type(tree) not in PLAIN:
        return isinstance(tree, _WITHOUT_TENSORS)
    alone = tree.is_leaf and tree.grad is None and not vars(tree)
    return alone and tree.layout == torch.strided and not (tree.is_conj() or tree.is_neg())


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


def alias(tensor: torch.Tensor, storage: torch.UntypedStorage | None = None) -> torch.Tensor:
    """Return another tensor in the same memory, or at the same place in another storage.

    A change through it does not show in the version of the tensor.
    """
    return torch.empty(0, dtype=tensor.dtype, device=tensor.device).set_(
        tensor.untyped_storage() if storage is None else storage,
        tensor.storage_offset(),
        tensor.shape,
        tensor.stride(),
    )
