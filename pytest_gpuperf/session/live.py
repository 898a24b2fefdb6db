"""The way to run on the GPU of this machine: measure, judge and keep the run."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.judge.code import compare_code
from pytest_gpuperf.judge.result import Status, Suspect
from pytest_gpuperf.judge.sanitizer_errors import errors_of
from pytest_gpuperf.measure.counters.profiling_pass import ProfilingPass
from pytest_gpuperf.measure.device.lock import HOST, GpuLock
from pytest_gpuperf.measure.device.presence import why_no_gpu
from pytest_gpuperf.measure.ncu.tool import find_ncu
from pytest_gpuperf.metrics.presets import DEFAULT, metrics_of
from pytest_gpuperf.records.passes import RESULTS_FILE, SelectedTest
from pytest_gpuperf.records.runs import make_state_folder
from pytest_gpuperf.registry import instrument
from pytest_gpuperf.session.keeping import KeepingRunner
from pytest_gpuperf.session.live_counters import COUNTERS_OFF, make_counters
from pytest_gpuperf.session.live_source import LiveSource
from pytest_gpuperf.session.pass_results import PassResults, read_results
from pytest_gpuperf.session.phases import Phases
from pytest_gpuperf.session.progress import Progress, StatusLine
from pytest_gpuperf.session.settling import Against, Settler
from pytest_gpuperf.session.unread import is_unread

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from pytest_gpuperf.judge.result import TestResult, TestVerdict
    from pytest_gpuperf.records import (
        ClockModel,
        Conditions,
        LaunchedCode,
        Settlement,
        TestRecord,
        TimingMode,
        TimingSource,
    )
    from pytest_gpuperf.records.call import Call
    from pytest_gpuperf.records.passes import CheckingPass, Invocation, Pass
    from pytest_gpuperf.session.link import Link
    from pytest_gpuperf.session.marker import ItemState
    from pytest_gpuperf.session.progress import Terminal
    from pytest_gpuperf.settings.settings import Settings


NOT_SETTLED = (Status.INVALID, Status.WRONG, Status.LIMIT)
"""Verdicts after which a test is not compared with `--gpuperf-against`."""


class LiveRunner(KeepingRunner):
    """Measures, judges, and keeps the run.

    Args:
        settings: The options.
        link: Leads to the controller; None if this process does everything.
    """

    on_gpu = True

    def __init__(self, settings: Settings, link: Link | None = None) -> None:
        from pytest_gpuperf.measure.device.conditions import Nvml
        from pytest_gpuperf.measure.device.environment import environment
        from pytest_gpuperf.measure.device.gpu import gpu_info
        from pytest_gpuperf.measure.device.kept import Originals
        from pytest_gpuperf.measure.identity.code_reader import CodeReader
        from pytest_gpuperf.measure.timing.timer import Timer

        self.open_run(settings, link)
        self._folder = self.runs.folder / self.run_id
        self._worker = link.orders.worker if link else 0
        self._phases = Phases()
        ncu = find_ncu(settings.ncu) if settings.counters in ("auto", "ncu") else None
        gpu = gpu_info()
        nvml = self._nvml = Nvml(gpu.uuid)
        gpu = replace(gpu, dram_gb_per_s=nvml.dram_gb_per_s)
        where = environment(gpu, settings.root, ncu.version if ncu else "")
        self._counters = make_counters(settings, gpu, ncu, self._folder_of("ncu"))
        self._reads_later = settings.counters == "auto" and ncu is not None
        self._tests: dict[str, SelectedTest] = {}
        timer = Timer(
            gpu.l2_bytes,
            settings.budget_s,
            self._conditions,
            nvml.max_sm_clock_mhz,
            Originals("pytest_gpuperf"),
        )
        source = LiveSource(
            self._counters,
            self._tests,
            timer,
            self._known_time,
            self.show_progress,
            self._folder / "traces",
            self._alone_on_host,
            CodeReader(where.toolchain.driver),
            self._phases,
        )
        super().__init__(settings, source, where)
        self._against = Against.of(settings)
        self._settler: Settler | None = None
        self._sanitizing = self._sanitizing_pass(settings.sanitize) if settings.sanitize != "off" else None
        if self._sanitizing is not None:
            self._counters.unavailable = f"counters are off (--gpuperf-sanitize={settings.sanitize})"
        elif settings.counters == "off":
            self._counters.unavailable = COUNTERS_OFF
        self._lock = GpuLock(gpu.uuid)
        self._host_lock = GpuLock(HOST)
        self._reporter: Terminal | None = None
        self._status = StatusLine(None)
        self._results_of_passes = PassResults()

    def _conditions(self) -> Conditions | None:
        found = self._nvml.conditions()
        # A process of its own that waits for its next order shares this GPU, and does not use it.
        alive = any(one.alive for one in self.own_processes)
        own = 1 if found is not None and found.other_processes and alive else 0
        return replace(found, other_processes=found.other_processes - own) if found and own else found

    @property
    def _profiling(self) -> ProfilingPass | None:
        """The counters, if ncu reads them before the tests."""
        return self._counters if isinstance(self._counters, ProfilingPass) else None

    def _sanitizing_pass(self, tool: str) -> CheckingPass:
        if self._against is not None:
            raise GpuperfError(
                f"--gpuperf-sanitize={tool} with --gpuperf-against={self.settings.against}",
                expected="one of them: a test with errors is not run, let alone timed",
            )
        made: CheckingPass = instrument("sanitizer").make_pass(self._folder_of("sanitizer"), tool)
        return made

    def _folder_of(self, kind: str) -> Path:
        """Return the folder for the files of a pass; each of several workers has its own."""
        several = self.link is not None and len(self.link.orders.cards) > 1
        return self._folder / kind / str(self._worker) if several else self._folder / kind

    def begin(self, reporter: Terminal | None) -> None:
        """Wait until no other run measures on this GPU; if that cannot be known, go on with a notice."""
        self._status = StatusLine(reporter)
        self._reporter = reporter
        self.wait_for(self._lock, reporter)

    @contextmanager
    def _alone_on_host(self) -> Iterator[None]:
        """Let no other process of this plugin on this host use its clock."""
        self.wait_for(self._host_lock, self._reporter)
        try:
            yield
        finally:
            self._host_lock.release()

    def end(self) -> None:
        """End the processes of this run, and let the next one measure."""
        for one in self.own_processes:
            one.end()
        if self._settler is not None:
            self._settler.close()
        self._lock.release()

    def run_passes(
        self, states: Sequence[ItemState], invocation: Invocation, reporter: Terminal | None
    ) -> None:
        """Run the passes that the options ask for, then apply their results to the tests."""
        # The tools of the passes measure one process.
        states = [state for state in states if not state.marker.gpus]
        self._tests.update({state.nodeid: self._select(state) for state in states})
        tests = list(self._tests.values())
        self._counters.expect(tests)
        path = self._folder / RESULTS_FILE.format(self._worker)
        resumed = read_results(path) if self.link is not None and self.link.orders.nodeids else None
        if resumed is None:
            self._results_of_passes = self._run_all(tests, invocation, reporter)
            if self.link is not None and (self._profiling or self._sanitizing):
                make_state_folder(self.runs.folder.parent)
                self._results_of_passes.write(path)
        else:
            self._results_of_passes = resumed
            if self._profiling is not None and resumed.counters is not None:
                self._profiling.reading = resumed.counters
        self.sanitized = self._results_of_passes.sanitized
        self._explain_unavailable(states)
        logs, progress = self._folder_of("against"), partial(Progress, reporter)
        self._settler = Settler(self, invocation, logs, progress, self.show_progress, self._against)

    def _run_all(
        self, tests: Sequence[SelectedTest], invocation: Invocation, reporter: Terminal | None
    ) -> PassResults:
        done = PassResults()
        if self._profiling is not None and self._sanitizing is None and not self._profiling.unavailable:
            if tests:
                self._run(self._profiling, tests, invocation, reporter)
            done.counters = self._profiling.reading
        if self._sanitizing is not None:
            title = self._sanitizing.title
            self._run(self._sanitizing, tests, invocation, reporter)
            done.sanitized, done.skipped = self._sanitizing.results, self._sanitizing.skipped
            self.problems += [f"{title}: {problem}" for problem in self._sanitizing.problems]
        return done

    def _run(
        self,
        each: Pass,
        tests: Sequence[SelectedTest],
        invocation: Invocation,
        reporter: Terminal | None,
    ) -> None:
        make_state_folder(self.runs.folder.parent)
        each.run(tests, invocation, partial(Progress, reporter))
        self.notices += each.notices

    def _explain_unavailable(self, states: Sequence[ItemState]) -> None:
        asked, why = self.settings.counters, self._counters.unavailable
        skipped = self._results_of_passes.skipped
        for state in states:
            if state.nodeid in skipped:
                (state.unavailable,) = errors_of(skipped[state.nodeid])
            elif asked in ("ncu", "cupti") and why:
                state.unavailable = f"--gpuperf-counters={asked}, but {why}"
        if asked != "off":
            self.counters_unavailable = why

    def _select(self, state: ItemState) -> SelectedTest:
        """Add the options to a test; a metric with a limit is read whatever the preset is."""
        preset = state.marker.preset or self.settings.preset
        return SelectedTest(
            state.nodeid,
            state.marker.regex,
            (
                *metrics_of(preset),
                *state.marker.metrics,
                *self.settings.metrics,
                *self.expected.limited(state.nodeid),
            ),
            "" if preset == (DEFAULT,) else ",".join(preset),
            state.path,
        )

    def show_progress(self, text: str) -> None:
        """Show the present measurement; an empty text ends it."""
        self._status.show(text)

    def _known_time(
        self, call: Call, code: LaunchedCode | None, mode: TimingMode
    ) -> tuple[TimingSource, ClockModel | None] | None:
        """Return the source of the time in the baseline, and its newest clock model, at its clock.

        Args:
            call: The call.
            code: Its code; other code has no model, since it may depend on the clock in another way.
            mode: Mode of the time.
        """
        known = self.expected.measurement(call.nodeid, call.label)
        time = known.time if known is not None else None
        if known is None or time is None or time.mode != mode:
            return None
        models = (session.clock_model for session in reversed(time.sessions))
        model = next(filter(None, models), None)
        if model is None or not compare_code(code, known.code).same:
            return time.source, None
        return time.source, replace(model, reference_mhz=time.reference_mhz or model.reference_mhz)

    def settle(self, state: ItemState, record: TestRecord, verdict: TestVerdict) -> Mapping[str, Settlement]:
        """Settle the suspects of a test; with `--gpuperf-against` each of its times."""
        # What becomes the baseline in any case needs no settlement.
        suspects = verdict.suspects if self.settings.update != "all" else ()
        if self._against is not None and not (verdict.status in NOT_SETTLED or record.failure):
            timed = [label for label, one in record.measurements.items() if one.timing is not None]
            suspects = tuple(Suspect(label, 0.0) for label in timed)
        if self._settler is None or not suspects:
            return {}
        timings = [record.measurements[one.label].timing for one in suspects]
        by_host = any(timing is not None and timing.mode == "host" for timing in timings)
        with self._alone_on_host() if by_host else nullcontext(), self._phases("settlement"):
            return self._settler.settle(state, suspects, self.expected.of(state.nodeid))

    def finish(self, *, complete: bool) -> None:
        """Say what was settled and what took the time, and write the run."""
        self.notices += [*(self._settler.notices if self._settler is not None else []), *self._phases.lines()]
        super().finish(complete=complete)

    def left_to_ncu(self, result: TestResult) -> SelectedTest | None:
        """Return what ncu has to read of a test after all tests; a test that has failed needs nothing."""
        record = result.record
        if not self._reads_later or record.failure or result.verdict.fails:
            return None
        unread = any(map(is_unread, record.measurements.values()))
        return self._tests.get(record.nodeid) if unread else None

    @property
    def why_no_counters(self) -> str:
        """Reason why the whole run has no counters."""
        return self._counters.unavailable


def why_not_live() -> str:
    """Return why nothing can be measured here; empty if it can."""
    if reason := why_no_gpu():
        return reason
    import torch

    if torch.cuda.is_available():
        return ""
    return "torch sees no CUDA GPU" if torch.version.cuda else "this torch was built without CUDA"
