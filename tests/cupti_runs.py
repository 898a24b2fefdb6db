"""Runs of pytest on a fake GPU, with a fake CUPTI and calls that it can and cannot read."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

import pytest_gpuperf.session.live_runner as live
from fake_cupti import CONTEXT, FakeCupti, activity
from pytest_gpuperf.features.ncu import report_reader
from pytest_gpuperf.measure.counters import cupti_counters
from pytest_gpuperf.measure.counters.counter_source import RawKernel
from pytest_gpuperf.measure.cupti import activity as cupti_activity
from pytest_gpuperf.measure.cupti import range_profiler
from pytest_gpuperf.measure.device import gpu_identity
from pytest_gpuperf.records import GpuInfo
from pytest_gpuperf.records.passes import PassFolder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pytest_gpuperf.measure.cupti.activity import Activity

UUID = "GPU-with-cupti"
OCCUPANCY = "sm__warps_active.avg.pct_of_peak_sustained_active"


def conftest(**given: Any) -> str:
    """Return a conftest.py that installs the fakes; `given` are arguments of `install`."""
    return f"import cupti_runs\nCUPTI = cupti_runs.install(**{given!r})\n"


def install(*, refusals: dict[str, int] | None = None, missing: str = "", has_ncu: bool = False) -> FakeCupti:
    """Install the fakes: CUPTI reads an occupancy of 80 %, and ncu one of 60 %.

    Args:
        refusals: Statuses of CUPTI's functions that fail.
        missing: Why there is no CUPTI; empty if there is one.
        has_ncu: Use the ncu that the run is told of; False for none.
    """
    cupti = FakeCupti({"gpu__time_duration.sum": 5000.0, OCCUPANCY: 80.0}, refusals=refusals or {})
    info = GpuInfo(name="A GPU", slug="a-gpu", uuid=UUID, compute_capability="9.0", multiprocessors=132)
    vars(live).update(why_not_live=lambda: "")
    if not has_ncu:
        vars(live).update(find_ncu=lambda _: None)
    vars(gpu_identity).update(gpu_info=lambda: info)
    nothing = {name: lambda *_: None for name in ("cudaProfilerStart", "cudaProfilerStop")}
    vars(torch.cuda).update(
        synchronize=lambda: None,
        is_initialized=lambda: True,
        current_device=lambda: 0,
        cudart=lambda: type("Runtime", (), {name: staticmethod(one) for name, one in nothing.items()}),
    )
    vars(torch.cuda.nvtx).update(range_start=lambda _: 0, range_end=lambda _: 0)
    vars(range_profiler).update(_current_context=lambda: CONTEXT, why_no_range_profiler=lambda: missing)
    vars(cupti_activity).update(recorded=_recorded)
    vars(cupti_counters).update(
        cupti=lambda: cupti, recorded=_recorded, CleanFlush=lambda l2_bytes: lambda: None
    )
    vars(report_reader).update(read_report_isolated=_read)
    return cupti


@contextmanager
def _recorded(**_: Any) -> Iterator[list[Activity]]:
    """Record one kernel; it is one of a graph if the project's `kernels.last` says so."""
    found: list[Activity] = []
    yield found
    in_graph = getattr(sys.modules.get("kernels"), "last", "") == "graph"
    found.append(activity("square_kernel", in_graph=in_graph))


def _read(report: Path, names: list[str], **_: Any) -> list[RawKernel]:
    ranges = [event.range for event in PassFolder(report.parent).events() if event.range]
    metrics: dict[str, float | str] = {OCCUPANCY: 60.0}
    return [
        RawKernel("square_kernel", grid=(8192, 1, 1), block=(256, 1, 1), ranges=(name,), metrics=metrics)
        for name in ranges
    ]
