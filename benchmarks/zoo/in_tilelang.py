"""A kernel in TileLang, which reads the types of its arguments when it is defined."""

import tilelang
import tilelang.language as T  # noqa: N812 - its usual name
import torch

BLOCK = 256


@tilelang.jit(out_idx=[-1])
def add_kernel(n):
    """Return a kernel that adds vectors of a length."""

    @T.prim_func
    def main(x: T.Tensor((n,), "float32"), y: T.Tensor((n,), "float32"), out: T.Tensor((n,), "float32")):  # type: ignore[valid-type]
        with T.Kernel(T.ceildiv(n, BLOCK), threads=BLOCK) as block:
            for i in T.Parallel(BLOCK):
                out[block * BLOCK + i] = x[block * BLOCK + i] + y[block * BLOCK + i]

    return main


def add_tilelang(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return the sum of two vectors."""
    found: torch.Tensor = add_kernel(x.numel())(x, y)
    return found
