"""Arrays of other libraries, read as tensors that share their memory: JAX, CuPy, numba-cuda, NumPy."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.dlpack import from_dlpack

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.trees import mapped

ON_GPU = frozenset((2, 13))
"""`kDLCUDA` and `kDLCUDAManaged` in dlpack.h."""


def as_tensor(value: Any, name: str) -> torch.Tensor | None:
    """Return an array as a tensor, by DLPack or `__cuda_array_interface__`; None for other values.

    Raises:
        GpuperfError: torch cannot read the array.
    """
    if isinstance(value, torch.Tensor):
        return value
    try:
        if hasattr(value, "__dlpack__"):
            return from_dlpack(value)
        if hasattr(value, "__cuda_array_interface__"):
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
        if hasattr(value, "__dlpack_device__"):
            return value.__dlpack_device__()[0] in ON_GPU
        return hasattr(value, "__cuda_array_interface__")
    except Exception:  # such as an array on several GPUs
        return False


def moved(tree: Any, device: torch.device) -> Any:
    """Return a reference with the arrays of other libraries as tensors on a device; tensors stay."""

    def one(value: Any) -> Any:
        tensor = None if isinstance(value, torch.Tensor) else as_tensor(value, "the reference")
        return value if tensor is None else tensor.to(device)

    return mapped(one, tree)
