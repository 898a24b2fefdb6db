"""The session that measures on the GPU of this machine."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pytest_gpuperf.counters.catalogue import is_raw_name
from pytest_gpuperf.counters.ncu import Ncu, find_ncu
from pytest_gpuperf.counters.plan import PassFolder
from pytest_gpuperf.counters.profiling_pass import ProfilingPass, Wanted
from pytest_gpuperf.session.keeping import KeepingSession
from pytest_gpuperf.session.progress import Progress
from pytest_gpuperf.verdict.limits import parse_limits

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from _pytest.terminal import TerminalReporter

    from pytest_gpuperf.item_state import ItemState
    from pytest_gpuperf.options import Settings

COUNTERS_OFF = "counters are off (--gpuperf-counters=off)"
NO_NCU = (
    "ncu was found neither on PATH nor in the CUDA installation; install Nsight Compute or name it with "
    "--gpuperf-ncu, or silence this with --gpuperf-counters=off"
)


class LiveSession(KeepingSession):
    """Measures, judges, and keeps the run."""

    def __init__(self, settings: Settings) -> None:
        from pytest_gpuperf.device.conditions import Nvml
        from pytest_gpuperf.device.environment import environment
        from pytest_gpuperf.device.gpu import gpu_info
        from pytest_gpuperf.instruments.live import LiveInstruments

        self.open_run(settings)
        # Otherwise torch.profiler, wherever it is used, leaves CUPTI attached, and each node of a graph
        # takes 0.1 to 0.3 µs longer from then on (torch 2.11 on an H200).
        os.environ.setdefault("TEARDOWN_CUPTI", "1")
        ncu = None if settings.counters == "off" else find_ncu(settings.ncu)
        self._pass = ProfilingPass(PassFolder(self.runs.folder / self.run_id / "ncu"), ncu)
        gpu = gpu_info()
        instruments = LiveInstruments(self._pass, gpu.l2_bytes, settings.budget_s, Nvml(gpu.uuid).conditions)
        super().__init__(settings, instruments, environment(gpu, settings.root, ncu.version if ncu else ""))
        self._ncu: Ncu | None = ncu

    def read_counters(
        self,
        states: Sequence[ItemState],
        arguments: Sequence[str],
        cwd: Path,
        reporter: TerminalReporter | None,
    ) -> None:
        """Run the selected tests once under ncu."""
        if self.settings.counters == "off":
            self._pass.unavailable = COUNTERS_OFF
        elif self._ncu is None:
            self._pass.unavailable = NO_NCU
        elif states:
            for state in states:
                state.metrics = (*state.marker.metrics, *self.settings.metrics, *self._raw_limits(state))
            wanted = [Wanted(state.nodeid, state.marker.regex, state.metrics) for state in states]
            with Progress(reporter, f"ncu {self._ncu.version} profiles {len(wanted)} tests") as progress:
                self._pass.run(wanted, arguments, cwd, progress)
        if self._pass.notice:
            self.notices.append(self._pass.notice)
        if self.settings.counters == "ncu" and self._pass.unavailable:
            for state in states:
                state.unavailable = f"--gpuperf-counters=ncu, but {self._pass.unavailable}"
        if self.settings.counters != "off":
            self.counters_unavailable = self._pass.unavailable

    def _raw_limits(self, state: ItemState) -> list[str]:
        """Raw ncu metrics that the baseline file has limits on."""
        baseline = self._baseline(state.nodeid)
        limits = parse_limits(baseline.limits) if baseline is not None else ()
        return [limit.name for limit in limits if is_raw_name(limit.name)]

    @property
    def why_no_counters(self) -> str:
        """Why the whole run has no counters."""
        return self._pass.unavailable


def why_not_live() -> str:
    """Why nothing can be measured here; empty where it can."""
    try:
        import torch
    except ModuleNotFoundError:
        return "torch is not installed"
    if torch.cuda.is_available():
        return ""
    return "torch sees no CUDA GPU" if torch.version.cuda else "this torch was built without CUDA"
