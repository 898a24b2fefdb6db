"""Length of two-dimensional vectors in CuPy, on torch's stream and on one of its own."""

from __future__ import annotations

import cupy
import torch

_hypotenuse = cupy.ElementwiseKernel(
    "float32 a, float32 b", "float32 c", "c = sqrtf(a * a + b * b)", "hypotenuse_kernel"
)
_own_stream = cupy.cuda.Stream(non_blocking=True)


def hypotenuse_cupy(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Launch on torch's current stream."""
    output = torch.empty_like(a)
    with cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
        _hypotenuse(cupy.asarray(a), cupy.asarray(b), cupy.asarray(output))
    return output


def hypotenuse_own_stream(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Launch on a stream that torch does not know, and wait for it."""
    output = torch.empty_like(a)
    torch.cuda.current_stream().synchronize()
    with _own_stream:
        _hypotenuse(cupy.asarray(a), cupy.asarray(b), cupy.asarray(output))
    _own_stream.synchronize()
    return output
