"""Collectives of NCCL, and a matrix product behind an all-gather, with their arguments and expected outputs.

The functions run on each rank of a test, whose GPU is the default device there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import distributed

from suites.products import exact_product

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_gpuperf.records.ranks import Collective

MIB = 2**20
PIECES = 4
"""Pieces of a shard, each gathered while the product of the one before is computed."""


def data(rank: int, world: int, seed: int, elements: int) -> torch.Tensor:
    """Return the numbers that a rank begins with; all ranks can make those of every rank."""
    torch.manual_seed(seed * (world + 1) + rank)
    return torch.rand(elements)


def all_reduce(x: torch.Tensor) -> None:
    """Add up in place."""
    distributed.all_reduce(x)


def all_gather(out: torch.Tensor, x: torch.Tensor) -> None:
    """Join the parts of all ranks."""
    distributed.all_gather_into_tensor(out, x)


def reduce_scatter(out: torch.Tensor, x: torch.Tensor) -> None:
    """Add up, and leave each rank its part."""
    distributed.reduce_scatter_tensor(out, x)


def all_to_all(out: torch.Tensor, x: torch.Tensor) -> None:
    """Give each rank its part."""
    distributed.all_to_all_single(out, x)


COLLECTIVES: Mapping[Collective, Callable[..., None]] = {
    "all_reduce": all_reduce,
    "all_gather": all_gather,
    "reduce_scatter": reduce_scatter,
    "all_to_all": all_to_all,
}


def buffers(kind: Collective, size: int, rank: int, world: int, seed: int) -> tuple[torch.Tensor, ...]:
    """Return the arguments of a collective, of which the larger has `size` bytes of float32."""
    whole = size // 4
    part = whole // world
    if kind == "all_reduce":
        return (data(rank, world, seed, whole),)
    if kind == "all_gather":
        return torch.empty(whole), data(rank, world, seed, part)
    return torch.empty(part if kind == "reduce_scatter" else whole), data(rank, world, seed, whole)


def collected(kind: Collective, size: int, rank: int, world: int, seed: int) -> torch.Tensor:
    """Return the expected output of a collective, from the numbers of all ranks."""
    of_ranks = [buffers(kind, size, each, world, seed)[-1] for each in range(world)]
    part = size // 4 // world
    own = slice(rank * part, (rank + 1) * part)
    if kind == "all_gather":
        return torch.cat(of_ranks)
    if kind == "all_to_all":
        return torch.cat([numbers[own] for numbers in of_ranks])
    total = torch.stack(of_ranks).sum(0)
    return total if kind == "all_reduce" else total[own]


def shards(m: int, n: int, k: int, rank: int, world: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a rank's m rows of the left matrix, and the right matrix, which is the same on all ranks."""
    rows = data(rank, world, seed, m * k).view(m, k) - 0.5
    right = data(world, world, seed, k * n).view(k, n) - 0.5
    return rows.bfloat16(), right.bfloat16()


def product_of_all(m: int, n: int, k: int, _rank: int, world: int, seed: int) -> torch.Tensor:
    """Return the product of the rows of all ranks."""
    rows = torch.cat([shards(m, n, k, each, world, seed)[0] for each in range(world)])
    return exact_product(rows, shards(m, n, k, 0, world, seed)[1])


def gathered_product(rows: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Gather all rows, then multiply."""
    m, k = rows.shape
    left = rows.new_empty(distributed.get_world_size() * m, k)
    distributed.all_gather_into_tensor(left, rows)
    return left @ right


def overlapped_product(rows: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Gather in pieces, and multiply one while the next is on its way."""
    world = distributed.get_world_size()
    m, k = rows.shape
    out = rows.new_empty(world, PIECES, m // PIECES, right.shape[1])
    pieces = [rows.new_empty(world * m // PIECES, k) for _ in range(PIECES)]
    works = [
        distributed.all_gather_into_tensor(piece, own, async_op=True)
        for piece, own in zip(pieces, rows.chunk(PIECES), strict=True)
    ]
    for at, (piece, work) in enumerate(zip(pieces, works, strict=True)):
        work.wait()
        for rank, part in enumerate(piece.chunk(world)):
            torch.mm(part, right, out=out[rank, at])
    return out.view(world * m, -1)
