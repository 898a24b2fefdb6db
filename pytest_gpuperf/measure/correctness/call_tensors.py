"""Tensors of a call: among its arguments and outputs, their values before it, and their memory.

Arrays of other libraries (JAX, CuPy, numba-cuda, NumPy) are read as tensors that share their memory.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from copy import copy as copy_of_object
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils.dlpack import from_dlpack

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.device.memory import alias, bytes_of, copy, fill, same_bits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


PLAIN = (torch.Tensor, torch.nn.Parameter)
"""Tensors without rules of their own."""
ON_GPU = frozenset((2, 13))
"""`kDLCUDA` and `kDLCUDAManaged` in dlpack.h."""
_PARTS: dict[torch.layout, tuple[str, ...]] = {
    torch.sparse_coo: ("indices", "values"),
    torch.sparse_csr: ("crow_indices", "col_indices", "values"),
    torch.jagged: ("offsets", "values"),
}
"""Methods that return the parts of a tensor."""


def named_tensors(tree: Any, name: str, *, argument: bool = False) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the tensors in nested tuples, lists and dicts with their places: `output[1]`, `output['lse']`.

    Those of dataclasses are there, too: `output.lse`. Arrays of other libraries count as tensors that share
    their memory. Among arguments they do so only on a GPU, and if torch can read them. A tensor that consists
    of others, such as a sparse one or a `DTensor`, is these; sparse and nested arguments are left out.

    Raises:
        GpuperfError: An output is quantised or not coalesced, or torch cannot read it.
    """
    if isinstance(tree, Mapping):
        for key, value in tree.items():
            yield from named_tensors(value, f"{name}[{key!r}]", argument=argument)
        return
    if isinstance(tree, (tuple, list)):
        for index, value in enumerate(tree):
            yield from named_tensors(value, f"{name}[{index}]", argument=argument)
        return
    if is_dataclass(type(tree)):
        for field in fields(tree):
            value = getattr(tree, field.name, None)
            yield from named_tensors(value, f"{name}.{field.name}", argument=argument)
        return
    tensor = _argument(tree, name) if argument else as_tensor(tree, name)
    if tensor is None:
        return
    if argument and (tensor.layout != torch.strided or tensor.is_nested):
        return
    if parts := _parts(tensor):
        for part, value in parts.items():
            yield from named_tensors(value, f"{name}.{part}", argument=argument)
        return
    if not argument and (tensor.is_quantized or tensor.layout != torch.strided):
        kind = "quantised" if tensor.is_quantized else tensor.layout
        raise GpuperfError(
            f"{name} is {kind}: such tensors are not compared",
            expected="dense, CSR or coalesced tensors of numbers",
            next_step="return .coalesce(), or its numbers by .to_dense() or .dequantize()",
        )
    yield name, tensor


def _parts(tensor: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return the tensors of which a sparse, nested or distributed one consists, without copies; else none."""
    if tensor.is_nested and tensor.layout == torch.strided:
        return {f"unbind()[{at}]": one for at, one in enumerate(tensor.unbind())}
    if tensor.layout in _PARTS and not (tensor.is_sparse and not tensor.is_coalesced()):
        return {f"{part}()": getattr(tensor, part)() for part in _PARTS[tensor.layout]}
    # The protocol of torch for a class that wraps tensors.
    names: list[str] = tensor.__tensor_flatten__()[0] if hasattr(tensor, "__tensor_flatten__") else []
    return {part: getattr(tensor, part) for part in names}


def tensors_of_arguments(
    args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> dict[int | str, dict[str, torch.Tensor]]:
    """Return the tensors of each argument, by their names in messages."""
    named: list[tuple[int | str, Any]] = [*enumerate(args), *kwargs.items()]
    return {key: dict(named_tensors(value, f"argument {key}", argument=True)) for key, value in named}


def copied_outputs(
    value: object, who: str, written: Mapping[str, torch.Tensor] = MappingProxyType({})
) -> dict[str, torch.Tensor]:
    """Return copies of the tensors that a callable returned, or that it wrote to if it returned None.

    Raises:
        GpuperfError: There are none.
    """
    tensors = written if value is None else dict(named_tensors(value, "output"))
    if not tensors:
        found = "None" if value is None else f"a {type(value).__name__} without tensors"
        raise GpuperfError(
            f"{who} returned {found}",
            expected="a tensor, or tuples, lists and dicts of them",
            next_step="name the arguments that it writes to: mutates=(0,)",
        )
    return {name: copy(tensor) for name, tensor in tensors.items()}


def _argument(value: object, name: str) -> torch.Tensor | None:
    if isinstance(value, torch.Tensor) or is_on_gpu(value):
        with suppress(GpuperfError):
            return as_tensor(value, name)
    return None


@dataclass(frozen=True)
class _Allocation:
    """One allocation, with a copy of its former content."""

    storage: torch.UntypedStorage
    before: torch.UntypedStorage
    tensors: dict[str, torch.Tensor]
    """Arguments in it."""

    def change(self) -> str:
        """Describe the first changed argument and the place; empty if none has changed."""
        if torch.equal(bytes_of(self.storage), bytes_of(self.before)):
            return ""
        for name, tensor in self.tensors.items():
            former = alias(tensor, self.before)
            changed = ~same_bits(tensor, former)
            if changed.any():
                index = tuple(changed.nonzero()[0].tolist())
                return (
                    f"{name} was changed: {int(changed.sum())} of {tensor.numel()} elements, the first at "
                    f"{list(index)} (before {copy(former[index]).item()}, "
                    f"after {copy(tensor[index]).item()}); "
                    "if the function is meant to write to it, name it in mutates="
                )
        return f"memory outside of {', '.join(self.tensors)}, but in the same allocation, was changed"


class Arguments:
    """Former values of the tensors among a call's arguments and of their gradients.

    A gradient is state of the call, not an output: a backward pass may add to it, and each call begins with
    the caller's gradient, most often none.

    Args:
        args: Positional arguments.
        kwargs: Keyword arguments.
        mutates: Positions or names of the arguments that may be written to; True for all.

    Raises:
        GpuperfError: `mutates` names a missing argument, or one without a dense tensor.
    """

    def __init__(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any], mutates: bool | Collection[int | str]
    ) -> None:
        tensors = tensors_of_arguments(args, kwargs)
        with_tensors = [key for key, found in tensors.items() if found]
        written: Collection[int | str] = (
            () if mutates is False else with_tensors if mutates is True else mutates
        )
        for key in written:
            if key not in with_tensors:
                raise GpuperfError(
                    f"mutates names argument {key}, which is not a tensor of this call",
                    expected=f"some of {with_tensors}",
                )
        self.written = {name: tensor for key in written for name, tensor in tensors[key].items()}
        """Tensors that may be written to, by name."""
        by_name = {name: tensor for found in tensors.values() for name, tensor in found.items()}
        self.devices = frozenset(tensor.device for tensor in by_name.values())
        self._memory = _memory_of(by_name)
        self.addresses = frozenset(self._memory)
        """Addresses of the allocations of all tensors."""
        # A backward pass leaves gradients at the leaves of the graph.
        self._gradients = [(tensor, tensor.grad) for tensor in by_name.values() if tensor.is_leaf]
        gradients = [grad for _, grad in self._gradients if grad is not None]
        of_memory = {f"gradient {at}": one for at, one in enumerate(gradients) if one.layout == torch.strided}
        self._gradient_memory = _memory_of(dict(named_tensors(of_memory, "gradients")))
        self._former = [(one, one.detach().clone()) for one in gradients if one.layout != torch.strided]

    def fill_written(self, byte: int) -> None:
        """Fill the tensors of floating type that may be written to."""
        for tensor in self.written.values():
            if tensor.is_floating_point() or tensor.is_complex():
                fill(tensor, byte)

    def change(self) -> str:
        """Describe the first change to a tensor that may not be written to; else empty."""
        may_change = {tensor.untyped_storage().data_ptr() for tensor in self.written.values()}
        changes = (memory.change() for at, memory in self._memory.items() if at not in may_change)
        return next((change for change in changes if change), "")

    @contextmanager
    def put_back(self) -> Iterator[None]:
        """Restore the former values of the tensors and their gradients at the end of the block."""
        try:
            yield
        finally:
            for memory in (*self._memory.values(), *self._gradient_memory.values()):
                memory.storage.copy_(memory.before)
            with torch.no_grad():
                for gradient, former in self._former:
                    gradient.copy_(former)
            for tensor, own in self._gradients:
                tensor.grad = own


def _memory_of(tensors: Mapping[str, torch.Tensor]) -> dict[int, _Allocation]:
    """Return the allocations of some tensors by address: two arguments can be views of one."""
    found: dict[int, _Allocation] = {}
    for name, tensor in tensors.items():
        storage = tensor.untyped_storage()
        if not storage.nbytes():
            continue
        if storage.data_ptr() not in found:
            found[storage.data_ptr()] = _Allocation(storage, bytes_of(storage).clone().untyped_storage(), {})
        found[storage.data_ptr()].tensors[name] = tensor
    return found


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


def as_tensor(value: Any, name: str) -> torch.Tensor | None:
    """Return an array as a tensor, by DLPack or `__cuda_array_interface__`; None for other values.

    Raises:
        GpuperfError: torch cannot read the array.
    """
    if isinstance(value, torch.Tensor):
        return value
    try:
        if hasattr(type(value), "__dlpack__"):
            return from_dlpack(value)
        if hasattr(type(value), "__cuda_array_interface__"):
            return torch.as_tensor(value, device="cuda")
    except Exception as error:
        raise GpuperfError(
            f"{name} is a {type(value).__qualname__} that torch cannot read: {error}",
            expected="an array in the memory of one device, of a type that torch has",
            next_step="return one that torch.from_dlpack accepts",
        ) from error
    return None


def is_on_gpu(value: Any) -> bool:
    """Return True for an array of another library in the memory of a GPU."""
    try:
        if hasattr(type(value), "__dlpack_device__"):
            return value.__dlpack_device__()[0] in ON_GPU
        return hasattr(type(value), "__cuda_array_interface__")
    except Exception:  # such as an array on several GPUs
        return False


def moved(tree: Any, device: torch.device) -> Any:
    """Return a reference with the arrays of other libraries as tensors on a device; tensors stay."""

    def one(value: Any) -> Any:
        tensor = None if isinstance(value, torch.Tensor) else as_tensor(value, "the reference")
        return value if tensor is None else tensor.to(device)

    return mapped(one, tree)


def mapped(function: Callable[[Any], Any], tree: Any) -> Any:
    """Return the same tree with the results for its values, also for those in the fields of dataclasses.

    A container of another class is a value.
    """
    kind = type(tree)
    if kind in (dict, OrderedDict):
        return kind((key, mapped(function, value)) for key, value in tree.items())
    if kind in (tuple, list):
        return kind(mapped(function, value) for value in tree)
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return kind(*(mapped(function, value) for value in tree))
    if is_dataclass(kind) and not issubclass(kind, (Mapping, torch.nn.Module)):
        made = copy_of_object(tree)
        for field in fields(kind):
            # It may be frozen.
            object.__setattr__(made, field.name, mapped(function, getattr(tree, field.name, None)))
        return made
    return function(tree)


def values_in(tree: Any) -> list[Any]:
    """Return the values of a tree."""
    found: list[Any] = []
    mapped(found.append, tree)
    return found


def is_installed(kind: type) -> bool:
    """Return True for a class of an installed package."""
    name = str(getattr(kind, "__module__", ""))
    module, root = sys.modules.get(name), sys.modules.get(name.partition(".")[0])
    # The module of a class can be set to any text, so the class must be there.
    known = getattr(module, kind.__name__, None) is kind
    where = Path(getattr(module, "__file__", None) or getattr(root, "__file__", None) or "")
    return known and not {"site-packages", "dist-packages"}.isdisjoint(where.parts)
