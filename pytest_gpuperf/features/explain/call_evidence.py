"""Evidence from the kernel table of a whole call, beyond the counters of single kernels."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_gpuperf.features.trace.kernel_name_patterns import kind_of

if TYPE_CHECKING:
    from pytest_gpuperf.records import Trace

OFF_TENSOR_CORES = "products_off_tensor_cores"
"""Share of the GPU's time in products of matrices that could be on tensor cores and are not, in %."""
_NOT_FOR_THEM = re.compile(r"gemv|dot_kernel|dgemm|f64|fp64|double", re.IGNORECASE)
"""A matrix times a vector is bound by memory, and float64 has tensor cores on few GPUs."""


def evidence_of(trace: Trace) -> tuple[dict[str, float], str]:
    """Collect the evidence of a call.

    Returns:
        The values of the call by name, and the names of its products that could be on tensor cores.
    """
    products = [
        kernel
        for kernel in trace.kernels
        if kernel.tensor_cores is False and is_for_tensor_cores(kernel.name)
    ]
    share_pct = sum(kernel.share_pct for kernel in products)
    return {**trace.values, OFF_TENSOR_CORES: share_pct}, " ".join(kernel.name for kernel in products)


def is_for_tensor_cores(name: str) -> bool:
    """Return True if a kernel's name says that it computes products that tensor cores could do.

    Args:
        name: Demangled; other spellings of it may follow.
    """
    return kind_of(name) == "matrix" and not _NOT_FOR_THEM.search(name)
