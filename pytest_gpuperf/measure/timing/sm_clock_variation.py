"""Change the SM clock on purpose: only a moving clock shows how the time of a batch depends on it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import torch

from pytest_gpuperf.measure.device import originals

if TYPE_CHECKING:
    from pytest_gpuperf.measure.timing.batch import Batch, Block

BURN_S = 0.2
"""Seconds of matrix products at the power limit; on an H200 the clock then stays low for 20 to 60 ms."""
REST_S = 0.2
"""Idle seconds, after which a clock that the batch has driven down is up again, for about 10 ms."""
BLOCKS = 6
"""Blocks after a burn or a rest, before the clock has returned to its former value."""
_SIZE = 8192
_SHARE_OF_MEMORY = 8


class Burn:
    """A matrix product that drives the GPU into its power limit."""

    def __init__(self) -> None:
        free, _ = torch.cuda.mem_get_info()
        size = _SIZE
        while 3 * 2 * size * size > free / _SHARE_OF_MEMORY and size > 1024:
            size //= 2
        # Zeros would draw less power; a separate generator leaves the user's seeds alone.
        generator = torch.Generator(device="cuda").manual_seed(0)
        self._input = torch.randn(size, size, device="cuda", generator=generator).to(torch.bfloat16)
        self._output = torch.empty_like(self._input)

    def __call__(self, seconds: float) -> None:
        """Burn for this long."""
        end = originals.now() + seconds
        while originals.now() < end:
            for _ in range(20):
                torch.mm(self._input, self._input, out=self._output)
            originals.synchronize()


def at_other_clocks(batch: Batch, burn: Burn, *, held_back: bool) -> list[Block]:
    """Run blocks of a batch while the SM clock is away from its steady value.

    The block right after a burn or a rest is dropped: the clock falls or climbs within it.

    Args:
        batch: The batch that was measured at the steady clock.
        burn: Drives the clock down.
        held_back: True if the batch itself has driven the clock down, so that a rest brings a higher one.
    """
    burn(BURN_S)
    blocks = _blocks(batch)
    if held_back:
        time.sleep(REST_S)
        blocks += _blocks(batch)
    return blocks


def _blocks(batch: Batch) -> list[Block]:
    batch.run()
    return [batch.run() for _ in range(BLOCKS)]
