"""One Triton kernel that reads each row once."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def scaled_softmax(x_ptr, scale_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * columns
    at = tl.arange(0, BLOCK)
    inside = at < columns
    x = tl.load(x_ptr + row + at, mask=inside, other=0.0) * tl.load(scale_ptr + at, mask=inside, other=0.0)
    x = tl.where(inside, x, float("-inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row + at, e / tl.sum(e, axis=0), mask=inside)


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.scale = nn.Parameter(torch.rand(columns) + 0.5)

    def forward(self, x):
        out = torch.empty_like(x)
        rows, columns = x.shape
        scaled_softmax[(rows,)](
            x, self.scale, out, columns, BLOCK=triton.next_power_of_2(columns), num_warps=8
        )
        return out
