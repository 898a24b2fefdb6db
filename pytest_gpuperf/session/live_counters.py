"""The readers of hardware counters that the options and the machine leave to a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gpuperf.measure.counters.auto_counters import AutoCounters
from pytest_gpuperf.measure.counters.kept_counters import KeptCounters, conditions_of
from pytest_gpuperf.measure.counters.profiling_pass import ProfilingPass
from pytest_gpuperf.measure.ncu.tool import NO_NCU
from pytest_gpuperf.metrics.chips import chip_of
from pytest_gpuperf.records.passes import PassFolder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pytest_gpuperf.measure.counters.cupti_counters import CuptiCounters
    from pytest_gpuperf.measure.device.conditions import Nvml
    from pytest_gpuperf.measure.ncu.tool import Ncu
    from pytest_gpuperf.records import Environment, GpuInfo
    from pytest_gpuperf.settings.settings import Settings

COUNTERS_OFF = "counters are off (--gpuperf-counters=off)"
INSTALL_NCU = (
    "install Nsight Compute or name it with --gpuperf-ncu, read counters without it by "
    "--gpuperf-counters=cupti, or silence this with --gpuperf-counters=off"
)
INSTALL_EITHER = (
    "install one of them, name ncu with --gpuperf-ncu, or silence this with --gpuperf-counters=off"
)


def make_counters(
    settings: Settings,
    where: Environment,
    ncu: Ncu | None,
    nvml: Nvml | None,
    *,
    state: Path,
    folder: Path,
    of_baseline: Callable[[str], frozenset[str]],
) -> ProfilingPass | CuptiCounters | AutoCounters:
    """Make the counters of a run.

    Args:
        settings: The options.
        where: GPU and versions.
        ncu: The installed ncu, if the options allow it.
        nvml: Knows the clock settings; None keeps no counters.
        state: The `.gpuperf` folder.
        folder: Folder for the pass under ncu.
        of_baseline: Returns labels of a test whose counters in the baseline are of ncu.
    """
    known = chip_of(where.gpu.compute_capability)
    chip = known.name if known else ""

    def kept(reader: str) -> KeptCounters | None:
        if nvml is None or settings.counter_cache == "off":
            return None
        return KeptCounters(
            state,
            settings.root,
            lambda: conditions_of(where, nvml.clock_settings(), settings.command_line),
            reader=reader,
            chip=chip,
            reads=settings.counter_cache == "auto",
        )

    in_process = None
    if settings.counters in ("auto", "cupti"):
        insists = settings.counters == "cupti" or ncu is not None
        in_process = _in_process(where.gpu, chip, kept("cupti"), insists=insists)
    if in_process is not None and ncu is None:
        return in_process
    kept_by_ncu = kept("ncu") if ncu else None

    under_ncu = ProfilingPass(
        PassFolder(folder),
        ncu,
        f"{NO_NCU}; {INSTALL_NCU}" if ncu is None else "",
        chip,
        kept=kept_by_ncu,
        required=settings.counters == "ncu",
    )
    if in_process is None:
        return under_ncu
    return AutoCounters(in_process, under_ncu, of_baseline, kept_by_ncu)


def _in_process(gpu: GpuInfo, chip: str, kept: KeptCounters | None, *, insists: bool) -> CuptiCounters:
    from pytest_gpuperf.measure.counters.cupti_counters import CuptiCounters
    from pytest_gpuperf.measure.counters.kept_calls import KeptCalls
    from pytest_gpuperf.measure.cupti.range_profiler import why_no_range_profiler

    calls = KeptCalls(kept) if kept is not None else None
    counters = CuptiCounters(gpu, chip, insists=insists, kept=calls)
    counters.unavailable = why_no_range_profiler()
    if counters.unavailable and not insists:
        counters.unavailable = f"{NO_NCU}, and {counters.unavailable}; {INSTALL_EITHER}"
    return counters
