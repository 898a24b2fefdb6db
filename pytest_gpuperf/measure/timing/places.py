"""Places in memory: the same call on copies of its tensors, with other memory for its outputs.

A kernel whose tensors fill a good part of the L2 has another time where they lie elsewhere, by two percent
and more, and each process has its own places. So the blocks of a short call take turns with many.
"""

from __future__ import annotations

from random import Random
from statistics import fmean
from typing import TYPE_CHECKING, Any

import torch

from pytest_gpuperf.measure.timing.graph import places

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_gpuperf.measure.reachable_tensors import CallElsewhere
    from pytest_gpuperf.measure.timing.batch import Block

PLACES = 16
MOST_APART = 1.1
"""Ratio of the times at two places. Beyond it, the call does not do the same work at both."""
_PAGE_BYTES, _MOST_PAGES = 2 << 20, 15


class Places:
    """A call at several places, in turn.

    Args:
        fn: The call on its own tensors; it is called once.
        elsewhere: Returns it on copies of them.
    """

    def __init__(self, fn: Callable[[], Any], elsewhere: Callable[[], CallElsewhere]) -> None:
        chance = Random()  # noqa: S311, as nothing is kept secret
        self._sizes = [place.bytes for place in places(fn())]
        self._outputs: list[list[torch.Tensor]] = []
        """Memory of outputs. The allocator gets one at a time, so that the next output lies there."""
        self.others: list[CallElsewhere] = []
        """The call at all places but the first."""
        self._between: list[torch.Tensor] = []
        """Memory that keeps each copy and its output another distance apart."""
        for at in range(2 * PLACES - 1):
            if at % 2:
                self.others.append(elsewhere())
            else:
                self._outputs.append(self._memory())
            self._between.append(_memory(chance.randint(1, _MOST_PAGES) * _PAGE_BYTES))
        self._fns: Sequence[Callable[[], Any]] = (fn, *self.others)
        self._turn = self._free = 0
        self._outputs[0] = []

    def next(self) -> Callable[[], Any]:
        """Return the call at the next place, and move its outputs; they meet each copy in turn."""
        self._outputs[self._free] = self._memory()
        at, self._turn = self._turn, self._turn + 1
        self._free = (at + at // PLACES) % PLACES
        self._outputs[self._free] = []
        return self._fns[at % PLACES]

    def _memory(self) -> list[torch.Tensor]:
        return [_memory(size) for size in self._sizes]


def agree(blocks: Sequence[Block]) -> bool:
    """Return True if blocks at all places, in turn, have about the same time."""
    means = [fmean(one.time_us for one in blocks[at::PLACES]) for at in range(min(PLACES, len(blocks)))]
    return max(means) <= MOST_APART * min(means)


def _memory(size: int) -> torch.Tensor:
    return torch.empty(size, dtype=torch.int8, device="cuda")
