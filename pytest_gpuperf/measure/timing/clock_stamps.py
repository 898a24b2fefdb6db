"""Stamps on the GPU itself: the true mean SM clock between two points of a stream.

NVML's clocks lag by tens of milliseconds. A kernel that stores `%globaltimer` (nanoseconds) and `%clock64`
(SM cycles) of each SM, before and after a batch, gives the mean SM clock of just that batch.
"""

from __future__ import annotations

from functools import cached_property

import torch

from pytest_gpuperf.measure.device import originals, ptx_kernels
from pytest_gpuperf.measure.timing.graph_capture import capture, replay_us
from pytest_gpuperf.records.quantities import LEAST_MHZ, MOST_MHZ

_COST_REPLAYS = 21


class Stamps:
    """Two stamps around work on the current stream; they can be captured into a graph."""

    def __init__(self) -> None:
        device = torch.cuda.current_device()
        # Two blocks for each SM, so that none is left out if another gets two of them.
        blocks = 2 * torch.cuda.get_device_properties(device).multi_processor_count
        self._before = torch.zeros(blocks, 3, dtype=torch.int64, device=device)
        self._after = torch.zeros_like(self._before)
        self.before()
        self.after()
        originals.synchronize()

    def before(self) -> None:
        """Stamp the beginning."""
        _store(self._before)

    def after(self) -> None:
        """Stamp the end."""
        _store(self._after)

    @cached_property
    def cost_us(self) -> float:
        """Return the microseconds that two stamps add to a graph, by the same events that time it."""

        def both() -> None:
            self.before()
            self.after()

        graph = capture(both)
        return sorted(replay_us(graph) for _ in range(_COST_REPLAYS))[_COST_REPLAYS // 2]

    def sm_clock_mhz(self) -> float:
        """Return the mean SM clock between the two passed stamps: the median over SMs; 0 if impossible."""
        begins, ends = (
            {sm: (time_ns, cycles) for time_ns, cycles, sm in rows.tolist()}
            for rows in (self._before, self._after)
        )
        clocks = sorted(
            1e3 * (ends[sm][1] - cycles) / (ends[sm][0] - time_ns)
            for sm, (time_ns, cycles) in begins.items()
            if sm in ends and ends[sm][0] > time_ns
        )
        if not clocks:
            return 0.0
        clock = float(clocks[len(clocks) // 2])
        # A coarse timer makes no clock of a short block.
        return clock if LEAST_MHZ <= clock <= MOST_MHZ else 0.0


def _store(rows: torch.Tensor) -> None:
    ptx_kernels.launch(ptx_kernels.STAMP, rows.data_ptr(), originals.current_stream().cuda_stream, len(rows))
