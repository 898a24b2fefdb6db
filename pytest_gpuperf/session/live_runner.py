"""The way to run on the GPU of this machine: measure, judge and keep the run."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec.structs import replace

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.judge.result import Status
from pytest_gpuperf.measure.counters.profiling_pass import ProfilingPass
from pytest_gpuperf.measure.device.gpu_detection import why_no_gpu
from pytest_gpuperf.measure.device.gpu_lock import GpuLock
from pytest_gpuperf.measure.device.launching_packages import launching_packages
from pytest_gpuperf.measure.ncu.tool import NO_NCU, find_ncu
from pytest_gpuperf.metrics.chips import chip_of
from pytest_gpuperf.metrics.presets import DEFAULT, metrics_of
from pytest_gpuperf.records.passes import RESULTS_FILE, PassFolder, SelectedTest
from pytest_gpuperf.records.run import COUNTERS_OFF
from pytest_gpuperf.records.run_store import make_state_folder
from pytest_gpuperf.records.sanitizer_error_texts import errors_of
from pytest_gpuperf.registry import instrument
from pytest_gpuperf.session.judge import Judge
from pytest_gpuperf.session.late_work import is_unread
from pytest_gpuperf.session.live_source import LiveSource
from pytest_gpuperf.session.progress import Display
from pytest_gpuperf.session.run_report import RunFile, RunReport
from pytest_gpuperf.session.runner import Runner
from pytest_gpuperf.session.settling import Against, Settler
from pytest_gpuperf.session.stored_pass_results import PassResults, read_results

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pytest_gpuperf.judge.result import TestResult
    from pytest_gpuperf.measure.counters.cupti_counters import CuptiCounters
    from pytest_gpuperf.measure.ncu.tool import Ncu
    from pytest_gpuperf.records import Conditions, GpuInfo
    from pytest_gpuperf.records.passes import CheckingPass, Invocation
    from pytest_gpuperf.session.marker import ItemState
    from pytest_gpuperf.session.progress import News
    from pytest_gpuperf.session.runner import Start
    from pytest_gpuperf.session.worker_messages import Link
    from pytest_gpuperf.settings.settings import Settings

NOT_SETTLED = (Status.INVALID, Status.WRONG, Status.LIMIT)
"""Verdicts after which a test is not compared with `--gpuperf-against`."""
INSTALL_NCU = (
    "install Nsight Compute or name it with gpuperf_ncu, read counters without it by "
    "--gpuperf-counters=cupti, or silence this with --gpuperf-counters=off"
)
INSTALL_EITHER = "install one of them, name ncu with gpuperf_ncu, or silence this with --gpuperf-counters=off"


class LiveRunner(Runner):
    """Measures, and settles suspects.

    Args:
        settings: The options.
        news: What a reader of the run should know besides the verdicts.
        link: Leads to the controller; None if this process does everything.
    """

    on_gpu = True

    def __init__(self, settings: Settings, news: News, link: Link | None = None) -> None:
        from pytest_gpuperf.measure.device.conditions import Nvml
        from pytest_gpuperf.measure.device.environment import environment
        from pytest_gpuperf.measure.device.gpu_identity import gpu_info
        from pytest_gpuperf.measure.first_calls import CodeReader
        from pytest_gpuperf.measure.timing.timer import Timer

        self._orders = link.orders if link is not None else None
        file = RunFile(settings, self._orders)
        self._folder = file.folder
        ncu = find_ncu(settings.ncu) if settings.counters in ("auto", "ncu") else None
        gpu = gpu_info()
        self._nvml = Nvml(gpu.uuid)
        gpu = replace(gpu, dram_gb_per_s=self._nvml.dram_gb_per_s)
        where = environment(gpu, settings.root, ncu.version if ncu else "")
        several = self._orders is not None and len(self._orders.cards) > 1
        self._own_folder = str(self._orders.worker) if self._orders is not None and several else ""
        judge = Judge(settings, where, card=gpu.uuid if several else "")
        self._judge, self._display = judge, Display(news)
        self._counters = make_counters(settings, gpu, ncu, self._folder_of("ncu"))
        self._reads_later = settings.counters == "auto" and ncu is not None
        self._live = LiveSource(
            self._counters,
            Timer(gpu.l2_bytes, settings.budget_s, self._conditions, self._nvml.max_sm_clock_mhz),
            CodeReader(where.toolchain.driver),
            self._display,
            expected=judge.expected,
            traces=self._folder / "traces",
            verify=settings.verify,
        )
        super().__init__(settings, self._live, RunReport(judge, news, file, link=link))
        self._against = Against.of(settings)
        if self._against is not None and self._against.notice:
            news.note(self._against.notice)
        self._settler: Settler | None = None
        self._sanitizing = self._sanitizing_pass(settings.sanitize) if settings.sanitize != "off" else None
        if self._sanitizing is not None:
            self._counters.unavailable = f"{COUNTERS_OFF} (--gpuperf-sanitize={settings.sanitize})"
        elif settings.counters == "off":
            self._counters.unavailable = f"{COUNTERS_OFF} (--gpuperf-counters=off)"
        self._lock = GpuLock(gpu.uuid)

    def _conditions(self) -> Conditions | None:
        found = self._nvml.conditions()
        # A process of its own that waits for its next order shares this GPU, and does not use it.
        alive = any(one.alive for one in self._live.processes)
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
        return self._folder / kind / self._own_folder

    def begin(self, states: Sequence[ItemState], start: Start) -> None:
        """Wait for the GPU, run the passes that the options ask for, and get ready to settle suspects."""
        # The tools of the passes measure one process.
        states = [state for state in states if not state.marker.gpus]
        self._live.tests.update({state.nodeid: self._select(state) for state in states})
        self._counters.expect(list(self._live.tests.values()))
        self._display.terminal = start.terminal
        self._display.wait_for(self._lock)
        self._run_passes([state for state in states if state.nodeid in start.own], start.invocation)
        logs = self._folder_of("against")
        self._settler = Settler(self._judge, start.invocation, logs, self._display, self._against)

    def _run_passes(self, states: Sequence[ItemState], invocation: Invocation) -> None:
        """Run the passes, then apply their results to the tests."""
        orders = self._orders
        path = self._folder / RESULTS_FILE.format(orders.worker if orders is not None else 0)
        done = read_results(path) if orders is not None and orders.nodeids else None
        if done is None:
            with suppress(OSError):  # the end of the run reports a full disk
                make_state_folder(self._folder.parents[1])
            done = self._run_all([self._live.tests[state.nodeid] for state in states], invocation)
            if orders is not None and (self._profiling or self._sanitizing):
                with suppress(OSError):
                    done.write(path)
        elif self._profiling is not None and done.counters is not None:
            self._profiling.reading, self._counters.unavailable = done.counters, done.unavailable
        asked, why = self.settings.counters, self._counters.unavailable
        for state in states:
            state.sanitized = done.sanitized.get(state.nodeid)
            if state.nodeid in done.skipped:
                (state.unavailable,) = errors_of(done.skipped[state.nodeid])
            elif asked in ("ncu", "cupti") and why:
                state.unavailable = f"--gpuperf-counters={asked}, but {why}"
        self._display.news.no_counters = why

    def end(self) -> None:
        """End the processes of this run, say how long each phase took, and let the next run measure."""
        self._display.news.no_counters = self._counters.unavailable
        for one in self._live.processes:
            one.end()
        if self._settler is not None:
            self._display.news.note(*self._settler.notices)
            self._settler.close()
        self._display.news.note(*self._live.phases.lines())
        self._lock.release()

    def _run_all(self, tests: Sequence[SelectedTest], invocation: Invocation) -> PassResults:
        done = PassResults()
        if self._profiling is not None and self._sanitizing is None and not self._profiling.unavailable:
            if tests:
                self._profiling.run(tests, invocation, self._display.progress)
            done.counters, done.unavailable = self._profiling.reading, self._profiling.unavailable
        if self._sanitizing is not None:
            self._sanitizing.run(tests, invocation, self._display.progress)
            self._display.news.note(*self._sanitizing.notices)
            done.sanitized, done.skipped = self._sanitizing.results, self._sanitizing.skipped
            title = self._sanitizing.title
            self._display.news.error(*(f"{title}: {problem}" for problem in self._sanitizing.problems))
        return done

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
                *self._judge.expected.limit_metrics(state.nodeid),
            ),
            "" if preset == (DEFAULT,) else ",".join(preset),
            state.path,
        )

    def judge(self, state: ItemState, failure: str = "") -> TestResult:
        """Judge a test, without a settlement."""
        # A test may import others when it runs.
        self._judge.environment.toolchain.packages.update(launching_packages(sys.modules))
        settled = self._settler.settlements if self._settler is not None else {}
        for label, measured in state.measurements.items():
            if first := settled.get((state.nodeid, label)):
                # A test that runs again has its first settlements.
                state.measurements[label] = replace(measured, settlement=first)
        result = self._judge.test(state, failure)
        return self._with_rest(replace(result, suspects=tuple(self._suspects(result))))

    def _suspects(self, result: TestResult) -> Sequence[str]:
        """Return the labels to settle; with `--gpuperf-against` those of all times."""
        record = result.record
        if self._settler is None or record.failure:
            return ()
        if self._against is None:
            # What becomes the baseline in any case needs no settlement.
            return result.suspects if self.settings.update != "all" else ()
        if result.status in NOT_SETTLED:
            return ()
        return [label for label, one in record.measurements.items() if one.timing and not one.settlement]

    def settle(self, state: ItemState, result: TestResult) -> TestResult:
        """Settle the suspects of a test that holds no memory any more, and judge it again."""
        assert self._settler is not None
        suspects, record = result.suspects, result.record
        with self._live.phases("settlement"):
            measured = self._settler.settle(state, suspects)
        return self._with_rest(self._judge.result(replace(record, measurements=measured), state.mistakes))

    def _with_rest(self, result: TestResult) -> TestResult:
        """Note if something of a test is left to do when all have ended; a failed one needs nothing."""
        record = result.record
        unread = self._reads_later and any(map(is_unread, record.measurements.values()))
        if record.failure or result.status.fails or not (unread or record.lacks_memory):
            return result
        return replace(result, unfinished=self._live.tests.get(record.nodeid))


def why_not_live() -> str:
    """Return why nothing can be measured here; empty if it can."""
    if reason := why_no_gpu():
        return reason
    import torch

    if torch.cuda.is_available():
        return ""
    return "torch sees no CUDA GPU" if torch.version.cuda else "this torch was built without CUDA"


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
