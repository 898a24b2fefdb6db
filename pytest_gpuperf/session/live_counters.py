"""The reader of hardware counters that the options and the machine leave to a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gpuperf.measure.counters.profiling_pass import ProfilingPass
from pytest_gpuperf.measure.ncu.tool import NO_NCU
from pytest_gpuperf.metrics.chips import chip_of
from pytest_gpuperf.records.passes import PassFolder

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_gpuperf.measure.counters.cupti_counters import CuptiCounters
    from pytest_gpuperf.measure.ncu.tool import Ncu
    from pytest_gpuperf.records import GpuInfo
    from pytest_gpuperf.settings.settings import Settings

COUNTERS_OFF = "counters are off (--gpuperf-counters=off)"
INSTALL_NCU = (
    "install Nsight Compute or name it with gpuperf_ncu, read counters without it by "
    "--gpuperf-counters=cupti, or silence this with --gpuperf-counters=off"
)
INSTALL_EITHER = "install one of them, name ncu with gpuperf_ncu, or silence this with --gpuperf-counters=off"


def make_counters(
    settings: Settings, gpu: GpuInfo, ncu: Ncu | None, folder: Path
) -> ProfilingPass | CuptiCounters:
    """Make the counters of a run.

    Args:
        settings: The options.
        gpu: The GPU.
        ncu: The installed ncu, if the options allow it.
        folder: Folder for a pass under ncu before the tests.
    """
    known = chip_of(gpu.compute_capability)
    chip = known.name if known else ""
    if settings.counters in ("auto", "cupti"):
        return _in_process(gpu, chip, ncu, insists=settings.counters == "cupti")
    return ProfilingPass(PassFolder(folder), ncu, f"{NO_NCU}; {INSTALL_NCU}" if ncu is None else "", chip)


def _in_process(gpu: GpuInfo, chip: str, ncu: Ncu | None, *, insists: bool) -> CuptiCounters:
    from pytest_gpuperf.measure.counters.cupti_counters import CuptiCounters
    from pytest_gpuperf.measure.cupti.range_profiler import why_no_range_profiler

    counters = CuptiCounters(gpu, chip, insists=insists)
    why = why_no_range_profiler() if insists or ncu is None else ""
    counters.unavailable = why if insists or not why else f"{NO_NCU}, and {why}; {INSTALL_EITHER}"
    return counters
