"""Memory of a call: its arguments, its outputs, and the outputs that it writes in full."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from pytest_gpuperf.measure.correctness.arguments import named_tensors
from pytest_gpuperf.measure.trees import values_in

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping


def argument_bytes(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> int:
    """Return the bytes of the tensors among the arguments; memory that two of them share counts once.

    Returns:
        0 if it is not known: a tensor is sparse, or of a type without memory of its own.
    """
    tree = [*args, dict(kwargs)]
    if any(isinstance(one, torch.Tensor) and one.layout != torch.strided for one in values_in(tree)):
        return 0
    with suppress(RuntimeError):
        return _bytes_of(tensor for _, tensor in named_tensors(tree, "argument", argument=True))
    return 0


class OutputMemory:
    """Memory of the tensors that a call returned, without that of its arguments.

    Args:
        value: The returned value, which the caller deletes before it asks for `new_bytes`.
        arguments: Addresses of the allocations of the arguments.
    """

    def __init__(self, value: object, arguments: Collection[int]) -> None:
        tensors = [tensor for _, tensor in named_tensors(value, "output") if tensor.numel()]
        self._found: list[tuple[StorageWeakRef, int]] = []
        with suppress(RuntimeError):
            self._found = list(_allocations(tensors, arguments))
        self.bytes = sum(count for _, count in self._found)
        """Bytes of all of them."""

    def new_bytes(self) -> int:
        """Return the bytes of those that nobody holds any longer.

        The next call gets them as new memory. Outputs that live on may be kept results, or buffers of which
        a call writes a part.
        """
        gone = [count for storage, count in self._found if storage.expired()]  # type: ignore[no-untyped-call]
        return sum(gone)


def _allocations(
    tensors: Iterable[torch.Tensor], but: Collection[int]
) -> Iterator[tuple[StorageWeakRef, int]]:
    """Yield the allocations of tensors with the bytes that they have in each.

    Raises:
        RuntimeError: A tensor is of a type without memory of its own.
    """
    found: dict[int, list[torch.Tensor]] = {}
    for tensor in tensors:
        address = tensor.untyped_storage().data_ptr()
        if address not in but:
            found.setdefault(address, []).append(tensor)
    for some in found.values():
        yield StorageWeakRef(some[0].untyped_storage()), _bytes_of(some)  # type: ignore[no-untyped-call]


def _bytes_of(tensors: Iterable[torch.Tensor]) -> int:
    """Return the bytes of the elements of tensors, at most those of their allocations."""
    elements: dict[int, int] = {}
    sizes: dict[int, int] = {}
    for tensor in tensors:
        storage = tensor.untyped_storage()
        address = storage.data_ptr()
        sizes[address] = storage.nbytes()
        elements[address] = elements.get(address, 0) + _distinct(tensor) * tensor.element_size()
    return sum(min(count, sizes[address]) for address, count in elements.items())


def _distinct(tensor: torch.Tensor) -> int:
    """Return the number of elements; those along an expanded dimension are one."""
    count = 1
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        count *= size if stride or not size else 1
    return count
