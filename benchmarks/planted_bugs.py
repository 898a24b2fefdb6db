"""Triton kernels with one bug each, right for the sizes that people test, and their references."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
import triton
import triton.language as tl

if TYPE_CHECKING:
    from collections.abc import Callable

BLOCK = 1024


@triton.jit  # type: ignore[untyped-decorator]
def _double(x, out, n, limit, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) * 2, mask=at < limit)


@triton.jit  # type: ignore[untyped-decorator]
def _double_from(x, out, n, first, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    at = first + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=(at >= 0) & (at < n)) * 2, mask=(at >= first) & (at < n))


@triton.jit  # type: ignore[untyped-decorator]
def _square_rows(x, out, columns, stride, stored, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    value = tl.load(x + row * stride + at, mask=at < columns)
    tl.store(out + row * columns + at, value * value, mask=at < stored)


@triton.jit  # type: ignore[untyped-decorator]
def _row_sums(x, out, blocks, stride, limit, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), tl.float32)
    for block in range(blocks):
        at = block * BLOCK + tl.arange(0, BLOCK)
        total += tl.load(x + row * stride + at, mask=at < limit, other=0.0)
    tl.store(out + row, tl.sum(total))


def _grid(n: int) -> tuple[int]:
    return (triton.cdiv(n, BLOCK),)


def past_the_block(x: torch.Tensor) -> torch.Tensor:
    """Store without a mask."""
    x = x.contiguous()
    out = torch.empty_like(x)
    _double[_grid(x.numel())](x, out, x.numel(), 1 << 30, BLOCK)
    return out


def one_past_the_end(x: torch.Tensor) -> torch.Tensor:
    """Write one element too many, hidden if the size is a multiple of the block."""
    x = x.contiguous()
    out = torch.empty_like(x)
    _double[_grid(x.numel())](x, out, x.numel(), x.numel() + 1, BLOCK)
    return out


def one_before_the_start(x: torch.Tensor) -> torch.Tensor:
    """Begin one element too early."""
    x = x.contiguous()
    out = torch.empty_like(x)
    if x.numel():
        _double_from[_grid(x.numel() + 1)](x, out, x.numel(), -1, BLOCK)
    return out


def into_the_argument(x: torch.Tensor) -> None:
    """Double in place, one element too many."""
    _double[_grid(x.numel())](x, x, x.numel() + 1, x.numel() + 1, BLOCK)


def tail_columns(x: torch.Tensor) -> torch.Tensor:
    """Leave out the columns after the last whole block."""
    x = x.contiguous()
    out = torch.empty(x.shape[0], device=x.device)
    if x.shape[0]:
        blocks = max(1, x.shape[1] // 128)
        _row_sums[(x.shape[0],)](x, out, blocks, x.stride(0), x.shape[1], 128)
    return out


def past_the_row(x: torch.Tensor) -> torch.Tensor:
    """Store a power of two of columns: rows overwrite each other, the last one writes past the end."""
    x = x.contiguous()
    out = torch.empty_like(x)
    if x.numel():
        block = triton.next_power_of_2(x.shape[1])
        _square_rows[(x.shape[0],)](x, out, x.shape[1], x.stride(0), block, block)
    return out


def unmasked_read(x: torch.Tensor) -> torch.Tensor:
    """Add the values behind the last row."""
    x = x.contiguous()
    out = torch.empty(x.shape[0], device=x.device)
    if x.shape[0]:
        blocks = triton.cdiv(x.shape[1], 128)
        _row_sums[(x.shape[0],)](x, out, blocks, x.stride(0), 1 << 30, 128)
    return out


def ignores_strides(x: torch.Tensor) -> torch.Tensor:
    """Take every argument for contiguous."""
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if x.numel():
        _double[_grid(x.numel())](x, out, x.numel(), x.numel(), BLOCK)
    return out


def past_two_billion(x: torch.Tensor) -> torch.Tensor:
    """Count elements in 32 bits."""
    x = x.contiguous()
    out = torch.empty_like(x)
    if x.numel():
        _double_from[_grid(x.numel())](x, out, x.numel(), 0, BLOCK)
    return out


def _doubled(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def _double_in_place(x: torch.Tensor) -> None:
    x *= 2


def _sums(x: torch.Tensor) -> torch.Tensor:
    return x.sum(1)


@dataclass(frozen=True)
class Planted:
    """A function with a bug."""

    fn: Callable[[torch.Tensor], torch.Tensor | None]
    expected: Callable[[torch.Tensor], torch.Tensor | None]
    shapes: str
    dtype: torch.dtype = torch.float32
    options: Any = field(default_factory=dict)


PLANTED = (
    Planted(past_the_block, _doubled, "(n)"),
    Planted(one_past_the_end, _doubled, "(n)"),
    Planted(one_before_the_start, _doubled, "(n)"),
    Planted(into_the_argument, _double_in_place, "(n)", options={"mutates": (0,)}),
    Planted(tail_columns, _sums, "(m,n)"),
    Planted(past_the_row, torch.square, "(m,n)"),
    Planted(unmasked_read, _sums, "(m,n)"),
    Planted(ignores_strides, _doubled, "(m,n)"),
    Planted(past_two_billion, _doubled, "(n)", dtype=torch.int8),
)
