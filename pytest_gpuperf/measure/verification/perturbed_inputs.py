"""Other values for the arguments of a timed call, in the same memory.

A tensor is rolled along its first dimension and halved, some times over for further values. Both keep what a
callable may rely on: the rows, the order in them, signs, ranges, zeros; halving is exact. A tensor keeps more
of its structure if it has some:

- Sorted, symmetric, triangular and complex tensors, and those with infinities or NaN, are only halved.
- Tensors of whole numbers (masks, counts) and of 8-bit types are only rolled.
- Whole numbers for which neither is left, such as zeros, stay as they are, and so do integers (which may be
  indices, masks or packed), booleans, single numbers and expanded tensors.

All tensors of one length are rolled by the same number, so that rows that belong together stay together.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.device.memory import alias, bytes_of
from pytest_gpuperf.measure.reachable_tensors import refuse_little_memory, tensors_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pytest_gpuperf.records.call import Inputs

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
        self.changeable = 1 if factory else len(self._changeable)
        """Tensors that get other values, each in its own way; those of a factory do so as one."""
        self.rolls = self.changeable > 1 and any(one.rolled for one in self._changeable)
        # The callable must not know the values, so no generator that it can seed.
        self._first_roll = random.SystemRandom().randrange(2**31)
        self._others = 0

    def restore(self) -> None:
        """Write the first values."""
        for at, storage in self._storages.items():
            bytes_of(storage).copy_(self._saved[at])
        self._also()

    def keep_state(self) -> None:
        """Restore only the arguments from now on."""
        own = {tensor.untyped_storage().data_ptr() for tensor in self.tensors.values()}
        self._storages = {at: storage for at, storage in self._storages.items() if at in own}

    def another(self, *, halves: bool = True) -> Callable[[], None]:
        """Return a function that writes values that were not written before; it may be called again."""
        if self._factory is not None:
            return self._made()
        roll, factor = self._first_roll + self._others, 0.5 ** (1 + self._others % FACTORS) if halves else 1.0
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
        is_number = tensor.is_floating_point() or tensor.is_complex()
        if not is_number or tensor.numel() < 2 or is_expanded(tensor):
            return None
        saved = alias(tensor, self._saved[tensor.untyped_storage().data_ptr()].untyped_storage())
        if tensor.dtype.itemsize == 1:
            return _Changeable(alias(tensor), saved, rolled=True, halved=False)
        whole = not saved.is_complex() and bool((saved == saved.round()).all())
        rolled = bool(saved.isfinite().all()) and not _has_order(saved)
        if whole and (not rolled or saved.min() == saved.max()):
            return None
        return _Changeable(alias(tensor), saved, rolled, halved=not whole)


def is_expanded(tensor: torch.Tensor) -> bool:
    """Return True if elements of a tensor share memory."""
    return any(stride == 0 and size > 1 for size, stride in zip(tensor.shape, tensor.stride(), strict=True))


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
