"""vllm-project/vllm#18161: typed strides are no constants from Triton 3.3.0 on, so loads are narrow."""

import pytest
import torch
import triton
import triton.language as tl

PAGES, PAGE, HEADS, WIDTH = 8192, 16, 8, 128


@triton.jit
def sum_of_keys(
    cache, table, out,
    stride_page: tl.int64, stride_token: tl.int64, stride_head: tl.int64, stride_width: tl.int64,
    pages: tl.constexpr, page: tl.constexpr, heads: tl.constexpr, width: tl.constexpr,
):  # fmt: skip
    """Each program adds the keys of one head over `pages` pages of a table."""
    sequence, head = tl.program_id(0), tl.program_id(1)
    token, along = tl.arange(0, page), tl.arange(0, width)
    sums = tl.zeros([page, width], tl.float32)
    for i in range(pages):
        at = tl.load(table + sequence * pages + i).to(tl.int64)
        keys = (
            cache
            + at * stride_page
            + token[:, None] * stride_token
            + head * stride_head
            + along[None, :] * stride_width
        )
        sums += tl.load(keys).to(tl.float32)
    tl.store(out + (sequence * heads + head) * width + along, tl.sum(sums, 0))


@pytest.mark.parametrize("sequences", [64, 256])
def test_sum_of_keys(gpuperf, sequences):
    cache = torch.randn(PAGES, PAGE, HEADS, WIDTH, dtype=torch.bfloat16, device=gpuperf.device)
    table = torch.randperm(PAGES, device=gpuperf.device, dtype=torch.int32).view(sequences, -1)

    def kernel(cache, table):
        out = torch.empty(sequences, HEADS, WIDTH, device=cache.device)
        sum_of_keys[(sequences, HEADS)](
            cache, table, out, *cache.stride(), PAGES // sequences, PAGE, HEADS, WIDTH, num_warps=4
        )
        return out

    def exact(cache, table):
        return cache.double()[table.long()].sum((1, 2))

    gpuperf(kernel, cache, table, expected=exact, rtol=1e-4, atol=1e-3)
