"""Functions in CUDA C++, compiled by `torch.utils.cpp_extension.load_inline`."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch


@cache
def compiled(declaration: str, source: str) -> Any:
    """Compile a C++ function with its kernels for the current GPU, or load it from torch's cache.

    Args:
        declaration: Declaration of the function, such as `torch::Tensor square(const torch::Tensor& x);`.
        source: CUDA C++ that defines it.
    """
    from torch.utils.cpp_extension import load_inline

    name = declaration.partition("(")[0].split()[-1]
    # An explicit architecture avoids TORCH_CUDA_ARCH_LIST, often a dozen of them in containers.
    major, minor = torch.cuda.get_device_capability()
    extension = load_inline(  # type: ignore[no-untyped-call]
        name=f"gpuperf_{name}",
        cpp_sources=declaration,
        cuda_sources=source,
        functions=[name],
        extra_cuda_cflags=["-O3", f"-gencode=arch=compute_{major}{minor},code=sm_{major}{minor}"],
    )
    return getattr(extension, name)
