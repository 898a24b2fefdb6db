"""Record the work of a rank's GPU in a call, by torch.profiler's records of its kernels."""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.features.trace.chrome_traces import read_chrome_trace
from pytest_gpuperf.features.trace.summary import devices_of, median_region
from pytest_gpuperf.features.trace.time_breakdown import split_span
from pytest_gpuperf.measure.timing.graph import hold_gpu
from pytest_gpuperf.records.ranks import RankTime

if TYPE_CHECKING:
    from pytest_gpuperf.features.ranks.single_rank_call import RankedCall
    from pytest_gpuperf.features.trace.chrome_traces import ChromeTrace

CALLS = 5
"""Recorded calls, of which the median counts."""
MARK = "gpuperf.call_of_rank"
"""Annotation around each call, without the barrier."""
QUEUE_US = 50_000
"""Time for which the GPU is blocked while the host queues the calls: recording slows it down."""


def recorded_time(call: RankedCall, time_us: float) -> RankTime:
    """Record some calls, queued like timed ones, and add what ran on the GPU to the time of this rank.

    Raises:
        GpuperfError: The call runs nothing on the GPU.
    """
    kinds = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        file = Path(folder) / "trace.json"
        call.meet()
        with torch.profiler.profile(activities=kinds) as profiler:
            hold_gpu(QUEUE_US)
            for _ in range(CALLS):
                call.barrier()
                with torch.profiler.record_function(MARK):
                    call()
            torch.cuda.synchronize()
        call.meet()
        profiler.export_chrome_trace(str(file))
        return rank_time(read_chrome_trace(file), time_us)


def rank_time(trace: ChromeTrace, time_us: float) -> RankTime:
    """Return the parts of the time of a call from the trace of some.

    Raises:
        GpuperfError: Nothing ran on the GPU in them.
    """
    gpus = devices_of(trace)
    device = max(gpus, key=lambda gpu: gpus[gpu], default=0)
    try:
        region, _ = median_region(trace, device, annotation=MARK.replace(".", r"\."))
    except GpuperfError:
        found = "the call runs nothing on its GPU, like a sum in place by one rank alone"
        raise GpuperfError(f"{found}; expected work to time") from None
    split = split_span(region.activities, trace.launched_us)
    return RankTime(
        time_us=time_us,
        gpu_busy_us=round(split.busy_us, 3),
        communication_us=round(split.communication.total_us, 3),
        exposed_us=round(split.communication.exposed_us, 3),
    )
