"""Other values for the arguments of a timed call, in the same memory.

A tensor is rolled along its first dimension and halved, some times over for further values. Both keep what a
callable may rely on: the rows, the order in them, signs, ranges, zeros; halving is exact. A tensor keeps more
of its structure if it has some:

- Sorted, symmetric and triangular tensors are only halved.
- Tensors of whole numbers (masks, counts) and of 8-bit types are only rolled.
- Integers, booleans, tensors with infinities or NaN, single numbers and constants stay as they are.

All tensors of one length are rolled by the same number, so that rows that belong together stay together.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from msgspec.structs import replace

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.correctness.arguments import named_tensors
from pytest_gpuperf.measure.device.memory import bytes_of, free_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pytest_gpuperf.records.call import Call, Inputs


FACTORS = 7
"""Values that differ even if a tensor is only halved; 2⁻⁷ of a half-precision number is still one."""


class _Changeable(NamedTuple):
    tensor: torch.Tensor
    """The timed tensor, by another object: a change does not show in its version."""
    saved: torch.Tensor
    rolled: bool
    halved: bool


class Values:
    """Values of the tensors on the GPU among the arguments; each write starts from those at first.

    Args:
        args: Positional arguments.
        kwargs: Keyword arguments.
        factory: Returns new arguments for a seed; without it, the present values are rolled and halved.
        seed: First seed for `factory`.
        state: What else a call writes; it is restored with the arguments.
        also: Called with each restoration.

    Raises:
        GpuperfError: There is too little memory.
    """

    def __init__(
        self,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        factory: Inputs | None = None,
        seed: int = 0,
        state: Sequence[torch.Tensor] = (),
        also: Callable[[], None] = lambda: None,
    ) -> None:
        self._args, self._kwargs = args, kwargs
        self._factory = factory
        self._seed = seed
        self._also = also
        self.tensors = tensors_of(args, kwargs)
        """All tensors on the GPU, by name."""
        storages = {
            tensor.untyped_storage().data_ptr(): tensor.untyped_storage()
            for tensor in (*self.tensors.values(), *state)
        }
        size = sum(storage.nbytes() for storage in storages.values())
        refuse_little_memory(size)
        self._saved = {at: bytes_of(storage).clone() for at, storage in storages.items()}
        self._storages = storages
        self._changeable = [] if factory else list(filter(None, map(self._how, self.tensors.values())))
        # The callable must not know the values, so no generator that it can seed.
        self._first_roll = random.SystemRandom().randrange(2**31)
        self._others = 0

    @property
    def has_others(self) -> bool:
        """True if other values can be written."""
        return bool(self._changeable) or self._factory is not None

    def restore(self) -> None:
        """Write the first values."""
        for at, storage in self._storages.items():
            bytes_of(storage).copy_(self._saved[at])
        self._also()

    def keep_state(self) -> None:
        """Restore only the arguments from now on."""
        own = {tensor.untyped_storage().data_ptr() for tensor in self.tensors.values()}
        self._storages = {at: storage for at, storage in self._storages.items() if at in own}

    def another(self) -> Callable[[], None]:
        """Return a function that writes values that were not written before; it may be called again."""
        if self._factory is not None:
            return self._made()
        roll, factor = self._first_roll + self._others, 0.5 ** (1 + self._others % FACTORS)
        self._others += 1

        def write() -> None:
            self.restore()
            for tensor, saved, rolled, halved in self._changeable:
                new = saved
                if rolled:
                    at = next(at for at, size in enumerate(saved.shape) if size > 1)
                    new = _rolled(new, 1 + roll % (saved.shape[at] - 1), at)
                tensor.copy_(new * factor if halved else new)

        return write

    def _made(self) -> Callable[[], None]:
        assert self._factory is not None
        self._seed += 1
        args, kwargs = self._factory(self._seed)
        made = tensors_of(args, kwargs)
        if made.keys() != self.tensors.keys() or any(
            (one.shape, one.dtype) != (made[name].shape, made[name].dtype)
            for name, one in self.tensors.items()
        ):
            raise GpuperfError(
                "inputs= returns tensors of other names, shapes or types for another seed",
                expected="the same ones with other values",
            )

        def write() -> None:
            self.restore()
            for name, tensor in self.tensors.items():
                alias(tensor).copy_(made[name])

        return write

    def _how(self, tensor: torch.Tensor) -> _Changeable | None:
        if not (tensor.is_floating_point() or tensor.is_complex()) or tensor.numel() < 2:
            return None
        if is_expanded(tensor):
            return None
        saved = alias(tensor, self._saved[tensor.untyped_storage().data_ptr()].untyped_storage())
        if tensor.dtype.itemsize == 1:
            return _Changeable(alias(tensor), saved, rolled=True, halved=False)
        if not saved.isfinite().all():
            return None
        whole = not saved.is_complex() and bool((saved == saved.round()).all())
        rolled = not _has_order(saved)
        if whole and (not rolled or saved.min() == saved.max()):
            return None
        return _Changeable(alias(tensor), saved, rolled, halved=not whole)


def tensors_of(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """Return the tensors of torch on the GPU among arguments, by name."""
    found: dict[str, torch.Tensor] = {}
    for key, value in [*enumerate(args), *kwargs.items()]:
        found.update(named_tensors(value, f"argument {key}", argument=True))
    return {name: one for name, one in found.items() if type(one) in PLAIN and one.numel() and on_gpu(one)}


def on_gpu(tensor: torch.Tensor) -> bool:
    """Return True for memory of the GPU: a graph has copied values of the host."""
    return tensor.is_cuda


def is_expanded(tensor: torch.Tensor) -> bool:
    """Return True if elements of a tensor share memory."""
    return any(stride == 0 and size > 1 for size, stride in zip(tensor.shape, tensor.stride(), strict=True))


PLAIN = (torch.Tensor, torch.nn.Parameter)
"""Tensors without rules of their own."""
_WITHOUT_TENSORS = (int, float, complex, str, bytes, type(None), torch.dtype, torch.device, torch.layout)


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


def fingerprint(tensor: torch.Tensor) -> tuple[int, ...]:
    """Return sums over the memory of a tensor, which other values change."""
    memory = bytes_of(tensor.untyped_storage())
    words = memory[: memory.numel() // 4 * 4].view(torch.int32)
    # The second sum notices a new order.
    sums = words.sum(), words[::3].sum(), memory[words.numel() * 4 :].sum()
    return tuple(map(int, torch.stack(sums)))


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


def _rolled(tensor: torch.Tensor, by: int, at: int) -> torch.Tensor:
    if tensor.dtype.itemsize == 1:
        return tensor.view(torch.uint8).roll(by, at).view(tensor.dtype)
    return tensor.roll(by, at)


def _has_order(tensor: torch.Tensor) -> bool:
    """Return True for a sorted vector, and for a symmetric or triangular matrix."""
    if tensor.is_complex():
        return True
    if max(tensor.shape) == tensor.numel():
        steps = tensor.flatten().diff()
        return bool((steps >= 0).all() or (steps <= 0).all())
    if tensor.dim() < 2 or tensor.shape[-1] != tensor.shape[-2]:
        return False
    upper, lower = tensor[..., 0, -1], tensor[..., -1, 0]
    # Most matrices are neither, and show it in their corners.
    if upper.any() and lower.any() and not _close(upper, lower):
        return False
    return (
        _close(tensor, tensor.mT) or torch.equal(tensor, tensor.tril()) or torch.equal(tensor, tensor.triu())
    )


def _close(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Return True for values that differ by rounding: a product with the transpose is not quite symmetric."""
    slack = 1e-3 * float(one.abs().max())
    return bool(((one - other).abs() <= slack).all())


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
