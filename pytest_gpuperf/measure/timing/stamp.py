"""Stamps on the GPU itself: the true mean SM clock between two points of a stream.

NVML's clocks lag by tens of milliseconds. A kernel that stores `%globaltimer` (nanoseconds) and `%clock64`
(SM cycles) of each SM, before and after a batch, gives the mean SM clock of just that batch.
"""

from __future__ import annotations

from functools import cached_property

import torch

from pytest_gpuperf.measure.device import kept
from pytest_gpuperf.measure.timing.graph import capture, replay_us
from pytest_gpuperf.records.quantities import LEAST_MHZ, MOST_MHZ

NAME = "gpuperf_stamp"
_COST_REPLAYS = 21


class Stamps:
    """Two stamps around work on the current stream; they can be captured into a graph.

    Raises:
        Exception: Triton is missing, or cannot compile for this GPU.
    """

    def __init__(self) -> None:
        from pytest_gpuperf.measure.timing.kernels import gpuperf_stamp

        device = torch.cuda.current_device()
        # Two programs for each SM, so that none is left out if another gets two of them.
        self._programs = 2 * torch.cuda.get_device_properties(device).multi_processor_count
        self._before = torch.zeros(self._programs, 3, dtype=torch.int64, device=device)
        self._after = torch.zeros_like(self._before)
        self._kernel = gpuperf_stamp
        self.before()
        self.after()
        kept.synchronize()

    def before(self) -> None:
        """Stamp the beginning."""
        self._kernel[(self._programs,)](self._before, num_warps=1)

    def after(self) -> None:
        """Stamp the end."""
        self._kernel[(self._programs,)](self._after, num_warps=1)

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


def stamps() -> Stamps | None:
    """Return a pair of stamps; None if stamps are impossible: timing works without the clock."""
    try:
        return Stamps()
    except Exception:
        return None
