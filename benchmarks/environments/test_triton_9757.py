"""triton-lang/triton#9757: states of a gated delta rule, slower from Triton 3.5.0 to 3.6.0 on Hopper."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

TOKENS, HEADS, KEYS, VALUES, CHUNK = 9408, 8, 128, 128, 64


@triton.jit
def states(
    k, w, u, g, h, tokens,
    heads: tl.constexpr, keys: tl.constexpr, values: tl.constexpr, chunk: tl.constexpr, width: tl.constexpr,
):  # fmt: skip
    """Each program walks over all chunks of one head, with `width` columns of both halves of its state."""
    column, head = tl.program_id(0), tl.program_id(1)
    half: tl.constexpr = keys // 2
    first = tl.zeros([half, width], dtype=tl.float32)
    second = tl.zeros([half, width], dtype=tl.float32)
    for i in range(tl.cdiv(tokens, chunk)):
        state = h + (i * heads + head) * keys * values
        above = tl.make_block_ptr(
            state, (keys, values), (values, 1), (0, column * width), (half, width), (1, 0)
        )
        below = tl.make_block_ptr(
            state, (keys, values), (values, 1), (half, column * width), (half, width), (1, 0)
        )
        tl.store(above, first.to(h.dtype.element_ty), boundary_check=(0, 1))
        tl.store(below, second.to(h.dtype.element_ty), boundary_check=(0, 1))

        at = i * chunk
        rows = tl.make_block_ptr(
            w + head * keys, (tokens, keys), (heads * keys, 1), (at, 0), (chunk, half), (1, 0)
        )
        old = tl.dot(tl.load(rows, boundary_check=(0, 1)), first.to(w.dtype.element_ty))
        old += tl.dot(
            tl.load(tl.advance(rows, (0, half)), boundary_check=(0, 1)), second.to(w.dtype.element_ty)
        )
        rows = tl.make_block_ptr(
            u + head * values,
            (tokens, values),
            (heads * values, 1),
            (at, column * width),
            (chunk, width),
            (1, 0),
        )
        new = tl.load(rows, boundary_check=(0, 1)) - old

        token = at + tl.arange(0, chunk)
        last = tl.load(g + (min(at + chunk, tokens) - 1) * heads + head)
        gates = tl.make_block_ptr(g + head, (tokens,), (heads,), (at,), (chunk,), (0,))
        gate = tl.load(gates, boundary_check=(0,))
        new = new * tl.where(token < tokens, tl.exp(last - gate), 0.0)[:, None]
        first *= tl.exp(last)
        second *= tl.exp(last)

        new = new.to(k.dtype.element_ty)
        turned = tl.make_block_ptr(
            k + head * keys, (keys, tokens), (1, heads * keys), (0, at), (half, chunk), (0, 1)
        )
        first += tl.dot(tl.load(turned, boundary_check=(0, 1)), new)
        second += tl.dot(tl.load(tl.advance(turned, (half, 0)), boundary_check=(0, 1)), new)


def exact(k, w, u, g):
    k, w, u, g = (one.double() for one in (k, w, u, g))
    state, all_states = torch.zeros(HEADS, KEYS, VALUES, dtype=k.dtype, device=k.device), []
    for i in range(0, TOKENS, CHUNK):
        all_states.append(state)
        kc, wc, uc, gc = (one[i : i + CHUNK].transpose(0, 1) for one in (k, w, u, g))
        new = (uc - wc @ state) * (gc[:, -1:] - gc).exp()[..., None]
        state = state * gc[:, -1].exp()[:, None, None] + kc.transpose(1, 2) @ new
    return torch.stack(all_states)


@pytest.mark.parametrize(("warps", "stages", "width"), [(4, 2, 32), (4, 3, 64)])
def test_states(gpuperf, warps, stages, width):
    device = gpuperf.device
    k, w, u = (torch.randn(TOKENS, HEADS, KEYS, device=device) for _ in range(3))
    k, w, u = (torch.nn.functional.normalize(one, dim=-1).bfloat16() for one in (k, w * 0.1, u))
    g = -torch.rand(TOKENS, HEADS, device=device).unflatten(0, (-1, CHUNK)).cumsum(1).flatten(0, 1) / 16

    def kernel(k, w, u, g):
        h = torch.empty(triton.cdiv(TOKENS, CHUNK), HEADS, KEYS, VALUES, dtype=k.dtype, device=k.device)
        states[(VALUES // width, HEADS)](
            k, w, u, g, h, TOKENS, HEADS, KEYS, VALUES, CHUNK, width, num_warps=warps, num_stages=stages
        )
        return h

    gpuperf(kernel, k, w, u, g, expected=exact, rtol=0.02, atol=0.01)
