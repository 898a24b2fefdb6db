"""The session that measures on the GPU of this machine."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from msgspec.structs import replace

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.counters.call_profile import Wanted
from pytest_gpuperf.measure.counters.kept_counters import KeptCounters, conditions_of
from pytest_gpuperf.measure.counters.profiling_pass import ProfilingPass
from pytest_gpuperf.measure.ncu.tool import NO_NCU, find_ncu
from pytest_gpuperf.measure.sanitizer.wording import errors_of
from pytest_gpuperf.metrics.chips import chip_of
from pytest_gpuperf.metrics.presets import DEFAULT, metrics_of
from pytest_gpuperf.records.change import show_signed
from pytest_gpuperf.records.passes import PassFolder
from pytest_gpuperf.records.runs import make_state_folder
from pytest_gpuperf.session.keeping import KeepingSession, timestamp
from pytest_gpuperf.session.progress import Progress, WaitingLine
from pytest_gpuperf.session.status_line import StatusLine
from pytest_gpuperf.statistics.decision import Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from _pytest.terminal import TerminalReporter

    from pytest_gpuperf.against.paired_pass import PairedPass
    from pytest_gpuperf.judge.result import TestResult
    from pytest_gpuperf.measure.counters.cupti_counters import CuptiCounters
    from pytest_gpuperf.measure.ncu.tool import Ncu
    from pytest_gpuperf.measure.sanitizer.sanitizing_pass import SanitizingPass
    from pytest_gpuperf.records import Environment, GpuInfo, Timing
    from pytest_gpuperf.records.call import Call
    from pytest_gpuperf.session.marker import ItemState
    from pytest_gpuperf.settings.settings import Settings

COUNTERS_OFF = "counters are off (--gpuperf-counters=off)"
MEND_NCU = (
    "install Nsight Compute or name it with --gpuperf-ncu, read counters without it by "
    "--gpuperf-counters=cupti, or silence this with --gpuperf-counters=off"
)
MEND_BOTH = "install one of them, name ncu with --gpuperf-ncu, or silence this with --gpuperf-counters=off"


class LiveSession(KeepingSession):
    """Measures, judges, and keeps the run."""

    def __init__(self, settings: Settings) -> None:
        from pytest_gpuperf.measure.device.conditions import Nvml
        from pytest_gpuperf.measure.device.environment import environment
        from pytest_gpuperf.measure.device.gpu import gpu_info
        from pytest_gpuperf.measure.device.lock import GpuLock
        from pytest_gpuperf.measure.timing.timer import Timer
        from pytest_gpuperf.session.live_instruments import LiveInstruments

        self.open_run(settings)
        ncu = find_ncu(settings.ncu) if settings.counters in ("auto", "ncu") else None
        gpu = gpu_info()
        nvml = Nvml(gpu.uuid)
        where = environment(gpu, settings.root, ncu.version if ncu else "")
        self._counters = self._source_of_counters(settings, where, ncu, nvml.clock_settings())
        timer = Timer(
            gpu.l2_bytes, settings.budget_s, nvml.conditions, max_sm_clock_mhz=nvml.max_sm_clock_mhz
        )
        traces = self.runs.folder / self.run_id / "traces"
        instruments = LiveInstruments(self._counters, timer, self._doubt, self._show_progress, traces)
        super().__init__(settings, instruments, where)
        self._paired = self._paired_pass(settings.against) if settings.against else None
        self._sanitizing = self._sanitizing_pass(settings.sanitize) if settings.sanitize != "off" else None
        self._lock = GpuLock(gpu.uuid)
        self._status = StatusLine(None)

    def begin(self, reporter: TerminalReporter | None) -> None:
        """Wait until no other run measures on this GPU; where that cannot be known, go on and say so."""
        self._status = StatusLine(reporter)
        try:
            with WaitingLine(reporter, self._lock.gpu) as waiting:
                self._lock.acquire(waiting)
        except GpuperfError as error:
            self.notices.append(f"not locked: {error}; another run could measure at the same time")

    def _show_progress(self, text: str) -> None:
        self._status.show(text)

    def _doubt(self, call: Call, timing: Timing) -> str:
        """What a time would be called; empty where it passes or has no baseline."""
        key = call.nodeid, call.label
        for time in (self.expected.gate.compare(key, timing), self.expected.gate.compare_pinned(key, timing)):
            if time is not None and time.decision.outcome is not Outcome.PASS:
                return f"{time.decision.outcome.value} at first, {show_signed(time.decision.change_pct)} %"
        return ""

    def end(self) -> None:
        """Let the next run measure."""
        self._lock.release()

    def read_counters(
        self,
        states: Sequence[ItemState],
        arguments: Sequence[str],
        cwd: Path,
        reporter: TerminalReporter | None,
    ) -> None:
        """Run the selected tests once under ncu or compute-sanitizer, where that is asked for."""
        counters, asked = self._counters, self.settings.counters
        if self._sanitizing is not None:
            counters.unavailable = f"counters are off (--gpuperf-sanitize={self.settings.sanitize})"
            self._sanitize(self._sanitizing, states, arguments, cwd, reporter)
        elif asked == "off":
            counters.unavailable = COUNTERS_OFF
        else:
            wanted = [self._wanted(state) for state in states]
            notice = counters.read_ahead(wanted, arguments, cwd, lambda what: Progress(reporter, what))
            self.notices += [notice] if notice else []
        if asked in ("ncu", "cupti") and counters.unavailable:
            for state in states:
                if not counters.has(state.nodeid):
                    state.unavailable = f"--gpuperf-counters={asked}, but {counters.unavailable}"
        if asked != "off":
            self.counters_unavailable = counters.unavailable

    def _source_of_counters(
        self, settings: Settings, where: Environment, ncu: Ncu | None, clocks: str
    ) -> ProfilingPass | CuptiCounters:
        """What reads counters: ncu, or CUPTI in this process where that is asked for or ncu is not there."""
        gpu = where.gpu
        known = chip_of(gpu.compute_capability)
        chip = known.name if known else ""
        if settings.counters == "cupti" or (settings.counters == "auto" and ncu is None):
            return self._in_process(gpu, chip, insists=settings.counters == "cupti")
        kept = None
        if settings.counter_cache != "off" and ncu is not None:
            kept = KeptCounters(
                self.runs.folder.parent,
                settings.root,
                lambda: conditions_of(where, clocks, settings.command_line),
                chip=chip,
                reads=settings.counter_cache == "auto",
            )
        folder = PassFolder(self.runs.folder / self.run_id / "ncu")
        missing = f"{NO_NCU}; {MEND_NCU}" if ncu is None else ""
        required = settings.counters == "ncu"
        return ProfilingPass(folder, ncu, missing, chip, kept=kept, required=required)

    def _in_process(self, gpu: GpuInfo, chip: str, *, insists: bool) -> CuptiCounters:
        from pytest_gpuperf.measure.counters.cupti_counters import CuptiCounters
        from pytest_gpuperf.measure.cupti.range_profiler import why_no_range_profiler

        counters = CuptiCounters(gpu, chip, insists=insists)
        counters.unavailable = why_no_range_profiler()
        if counters.unavailable and not insists:
            counters.unavailable = f"{NO_NCU}, and {counters.unavailable}; {MEND_BOTH}"
        return counters

    def _sanitizing_pass(self, tool: str) -> SanitizingPass:
        from pytest_gpuperf.measure.sanitizer.sanitizing_pass import SanitizingPass
        from pytest_gpuperf.measure.sanitizer.tool import find_sanitizer

        if self._paired is not None:
            raise GpuperfError(
                f"--gpuperf-sanitize={tool} with --gpuperf-against={self.settings.against}",
                expected="one of them: what is found wrong is not run, let alone timed",
            )
        return SanitizingPass(self.runs.folder / self.run_id / "sanitizer", find_sanitizer(), tool)

    def _sanitize(
        self,
        sanitizing: SanitizingPass,
        states: Sequence[ItemState],
        arguments: Sequence[str],
        cwd: Path,
        reporter: TerminalReporter | None,
    ) -> None:
        nodeids = [state.nodeid for state in states]
        what = f"{sanitizing.title} runs {len(nodeids)} {'test' if len(nodeids) == 1 else 'tests'}"
        with Progress(reporter, what) as progress:
            sanitizing.run(nodeids, arguments, cwd, progress)
        self.sanitized = sanitizing.results
        self.problems += [f"{sanitizing.title}: {problem}" for problem in sanitizing.problems]
        for state in states:
            if state.nodeid in sanitizing.skipped:
                (state.unavailable,) = errors_of(sanitizing.skipped[state.nodeid])
        self.notices.append(sanitizing.summary)

    def _paired_pass(self, ref: str) -> PairedPass:
        from pytest_gpuperf.against.git import Repository
        from pytest_gpuperf.against.paired_pass import PairedPass

        repository = Repository.around(self.settings.root)
        logs = self.runs.folder / self.run_id / "against"
        return PairedPass(repository, repository.commit(ref), logs, self.settings.budget_s)

    def pair(
        self,
        states: Sequence[ItemState],
        paths: Mapping[str, Path],
        arguments: Sequence[str],
        cwd: Path,
        reporter: TerminalReporter | None,
    ) -> None:
        """Time the tests in turn with the code of `--gpuperf-against`."""
        if self._paired is None:
            return
        from pytest_gpuperf.against.candidate import Candidate
        from pytest_gpuperf.against.launch import Invocation

        tests = [Candidate(state.nodeid, paths[state.nodeid], self.tolerance_pct(state)) for state in states]
        invocation = Invocation(
            arguments, cwd, self.settings.root, self.settings.mode, self.settings.first_on_path
        )
        make_state_folder(self.runs.folder.parent)
        what = f"{len(tests)} {'test' if len(tests) == 1 else 'tests'} against {self._paired.commit}"
        with Progress(reporter, what) as progress:
            self._paired.run(tests, invocation, progress.show)
        self.notices.extend(self._paired.notices)

    def judge(self, state: ItemState, failure: str = "") -> TestResult:
        """Judge a test that has run, with what it was compared with."""
        for label, measurement in state.measurements.items():
            compared = self._paired.lookup(state.nodeid, label) if self._paired is not None else None
            if measurement.timing is not None and compared is not None:
                state.measurements[label] = replace(measurement, against=compared.record)
        return super().judge(state, failure)

    def _wanted(self, state: ItemState) -> Wanted:
        """What ncu is asked for a test; a limit is judged whatever the preset is."""
        preset = state.marker.preset or self.settings.preset
        state.metrics = (
            *metrics_of(preset),
            *state.marker.metrics,
            *self.settings.metrics,
            *self.expected.limited(state.nodeid),
        )
        shown = "" if preset == (DEFAULT,) else ",".join(preset)
        return Wanted(state.nodeid, state.marker.regex, state.metrics, shown)

    def finish(self, *, complete: bool) -> None:
        """Keep the counters that were read, and write the run."""
        problem = self._counters.keep(timestamp(self._started))
        self.notices += [problem] if problem else []
        super().finish(complete=complete)

    @property
    def why_no_counters(self) -> str:
        """Why the whole run has no counters."""
        return self._counters.unavailable


def why_not_live() -> str:
    """Return why nothing can be measured here; empty if it can."""
    if os.environ.get("CUDA_VISIBLE_DEVICES") == "":
        return "CUDA_VISIBLE_DEVICES is empty, which hides every GPU"
    try:
        import torch
    except ModuleNotFoundError:
        return "torch is not installed"
    if torch.cuda.is_available():
        return ""
    return "torch sees no CUDA GPU" if torch.version.cuda else "this torch was built without CUDA"
