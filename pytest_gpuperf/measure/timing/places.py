"""Places in memory: the same call on copies of its tensors, with other memory for its outputs.

A kernel whose tensors fill a good part of the L2 has another time if they lie elsewhere, by two percent and
more, and each process has its own places. So the blocks of a short call take turns with many.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import torch

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.device import originals
from pytest_gpuperf.measure.device.memory import free_bytes
from pytest_gpuperf.measure.timing.graph import output_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_gpuperf.measure.reachable_tensors import CallElsewhere
    from pytest_gpuperf.measure.timing.batch import Block

PLACES = 16
MOST_APART = 1.1
"""Ratio of the times at two places. Beyond it, the call does not do the same work at both."""
MOST_OF_FREE = 0.25
"""Share of the free memory that all places may take: what follows needs some, too."""
_PAGE_BYTES, _MOST_PAGES = 2 << 20, 15


class Places:
    """A call at several places, in turn.

    The outputs are steered through torch's allocator: of equal blocks it has one free. So a call that takes
    memory in another way has fewer places.

    Args:
        fn: The call on its own tensors.
        elsewhere: Returns it on copies of them.

    Raises:
        GpuperfError: They would take too much memory.
        Exception: Of the call.
    """

    def __init__(self, fn: Callable[[], Any], elsewhere: Callable[[], CallElsewhere]) -> None:
        first = elsewhere()
        self._sizes = [one.bytes for one in output_memory(first()) if one.address not in first.addresses]
        size = first.nbytes + sum(self._sizes)
        if (most := PLACES * (size + 2 * _MOST_PAGES * _PAGE_BYTES)) > MOST_OF_FREE * free_bytes():
            raise GpuperfError(f"{PLACES} places take up to {most / 2**30:.3g} GiB")
        self.calls: list[Any] = [fn, first]
        """The call at each place; the first one has its own tensors."""
        self._outputs: list[list[Any]] = [[]]
        """Memory of outputs. The allocator gets one at a time, so that the next output lies there."""
        self._between: list[Any] = []
        """Memory that keeps each copy and its output another distance apart."""
        chance = Random()  # noqa: S311, as nothing is kept secret
        for at in range(2, 2 * PLACES):
            self._between.append(_memory(chance.randint(1, _MOST_PAGES) * _PAGE_BYTES))
            if at % 2:
                self._outputs.append(self._memory())
            elif len(self.calls) < PLACES:
                self.calls.append(elsewhere())
        self._turn = self._free = 0
        for one in self.calls:
            one()  # a callable may do something once for each tensor
        originals.synchronize()

    def next(self) -> Callable[[], Any]:
        """Return the call at the next place, and move its outputs; they meet each copy in turn."""
        self._outputs[self._free] = self._memory()
        at, self._turn = self._turn, self._turn + 1
        self._free = (at + at // PLACES) % PLACES
        self._outputs[self._free] = []
        found: Callable[[], Any] = self.calls[at % PLACES]
        return found

    def agree(self, blocks: Sequence[Block]) -> bool:
        """Return True if the shortest blocks at all places, in turn, have about the same time."""
        least = [min(one.time_us for one in blocks[at::PLACES]) for at in range(PLACES)]
        return max(least) <= MOST_APART * min(least)

    def _memory(self) -> list[Any]:
        return [_memory(size) for size in self._sizes]


def _memory(size: int) -> Any:
    # `torch.empty` would fill it in torch's deterministic mode, and CUPTI would record that.
    return torch.UntypedStorage(size, device="cuda")  # type: ignore[no-untyped-call]
