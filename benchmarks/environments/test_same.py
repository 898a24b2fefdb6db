"""Kernels for equal environments: each number is another test, and none may fail."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

NUMBERS = 1000


@triton.jit
def normalized(x, out, columns: tl.constexpr):
    at = tl.program_id(0) * columns + tl.arange(0, columns)
    row = tl.load(x + at)
    row = row - tl.sum(row, 0) / columns
    tl.store(out + at, row / tl.sqrt(tl.sum(row * row, 0) / columns + 1e-6))


def normalize(warps):
    def kernel(x):
        out = torch.empty_like(x)
        normalized[(x.shape[0],)](x, out, x.shape[1], num_warps=warps)
        return out

    return kernel


def layer_norm(x):
    return torch.nn.functional.layer_norm(x, x.shape[-1:], eps=1e-6)


OPERATIONS = (
    (normalize(2), layer_norm),
    (normalize(4), layer_norm),
    (normalize(8), layer_norm),
    *((one, one) for one in (
        lambda x: x + 1.5,
        torch.nn.functional.gelu,
        lambda x: x.softmax(-1),
        lambda x: x.sum(-1),
        lambda x: x @ x.T,
        lambda x: x.sort(-1).values,
    )),
)  # fmt: skip


@pytest.mark.parametrize("number", range(NUMBERS))
def test_pair(gpuperf, number):
    kernel, exact = OPERATIONS[number % len(OPERATIONS)]
    rows, columns = 256 * (1 + number % 16), 1024 << (number % 4)
    x = torch.randn(rows, columns, device=gpuperf.device)
    gpuperf(kernel, x, expected=lambda x: exact(x.double()), rtol=1e-3, atol=2e-2)
