"""Calls that the tests run on two ranks: found there by module and name."""

from __future__ import annotations

import os
import signal
import sys
import time
from functools import partial
from typing import Any

import torch
from torch import distributed

N = 1000


def inputs(rank: int, world: int, seed: int) -> tuple[torch.Tensor]:
    """Return other numbers on each rank."""
    torch.manual_seed(seed * world + rank)
    return (torch.rand(N),)


def total(_rank: int, world: int, seed: int) -> torch.Tensor:
    """Return the sum over all ranks."""
    return sum((inputs(rank, world, seed)[0] for rank in range(world)), torch.zeros(N))


def all_reduce(x: torch.Tensor) -> torch.Tensor:
    """Add up a copy."""
    y = x.clone()
    distributed.all_reduce(y)
    return y


def in_place(x: torch.Tensor) -> None:
    """Add up in place."""
    distributed.all_reduce(x)


def half_written(x: torch.Tensor) -> torch.Tensor:
    """Leave the last element unwritten."""
    y = torch.empty_like(x)
    y[:-1] = all_reduce(x)[:-1]
    return y


def on_rank_1(x: torch.Tensor, *, do: Any) -> torch.Tensor:
    """Do something else on rank 1 while rank 0 waits for it."""
    if distributed.get_rank() == 1:
        do()
    return all_reduce(x)


def _die() -> None:
    sys.stderr.write("no more memory\n")
    sys.stderr.flush()
    os.kill(os.getpid(), signal.SIGKILL)


def _hang() -> None:
    time.sleep(60)


def _raise() -> None:
    raise ValueError("a bad shape")


dies = partial(on_rank_1, do=_die)
hangs = partial(on_rank_1, do=_hang)
raises = partial(on_rank_1, do=_raise)


def bare_input(rank: int, world: int, seed: int) -> torch.Tensor:
    """Forget the comma."""
    return inputs(rank, world, seed)[0]


def sleeps_longer_on_rank_1(x: torch.Tensor) -> torch.Tensor:
    """Communicate nothing, and take 5 ms longer on rank 1."""
    time.sleep(0.005 * (1 + distributed.get_rank()))
    return x.clone()
