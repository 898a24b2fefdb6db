"""triton-lang/triton#9703: a TMA load that is reduced at once, slower from Triton 3.5.1 to 3.6.0."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

ROWS = COLUMNS = 8192
BLOCK_N = 128


@triton.jit
def maxima(x, out, columns: tl.constexpr, block_m: tl.constexpr, block_n: tl.constexpr):
    down, along = tl.program_id(0), tl.program_id(1)
    tile = x.load([down * block_m, along * block_n]).to(tl.float32)
    at = along * block_n + tl.arange(0, block_n)
    tl.store(out + down * columns + at, tl.max(tile, axis=0))


@pytest.mark.parametrize("block_m", [16, 32, 64])
def test_maxima_of_blocks(gpuperf, block_m):
    x = torch.randn(ROWS, COLUMNS, dtype=torch.bfloat16, device=gpuperf.device)

    def kernel(x):
        out = torch.empty(ROWS // block_m, COLUMNS, device=x.device)
        tiles = TensorDescriptor(x, list(x.shape), list(x.stride()), [block_m, BLOCK_N])
        maxima[(ROWS // block_m, COLUMNS // BLOCK_N)](tiles, out, COLUMNS, block_m, BLOCK_N, num_warps=4)
        return out

    gpuperf(kernel, x, expected=lambda x: x.double().unflatten(0, (-1, block_m)).amax(1))
