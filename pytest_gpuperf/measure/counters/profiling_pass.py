"""The profiling pass: run the selected tests under ncu, and read its report."""

from __future__ import annotations

import difflib
import itertools
import os
import re
import signal
import sys
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.counters.call_profile import by_kind, choose, names_to_read, profile_of
from pytest_gpuperf.measure.counters.kept_counters import launched_kernels
from pytest_gpuperf.measure.cupti.libcupti import CuptiError
from pytest_gpuperf.measure.ncu.csv_reader import read_csv
from pytest_gpuperf.measure.ncu.ncu_failures import explain
from pytest_gpuperf.measure.ncu.raw_kernel import RawKernel
from pytest_gpuperf.measure.ncu.report_reader import ncu_python_dirs, read_report_isolated
from pytest_gpuperf.measure.ncu.tool import CACHE_CONTROL, CLOCK_CONTROL, Ncu
from pytest_gpuperf.processes.children import run_child
from pytest_gpuperf.records import Profile
from pytest_gpuperf.records.passes import PassFolder, PassPlan
from pytest_gpuperf.settings.settings import PROFILING_PASS_ENV

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pytest_gpuperf.measure.counters.kept_counters import KeptCounters, KeptTest
    from pytest_gpuperf.measure.cupti.activity import Activity
    from pytest_gpuperf.records.call import Call
    from pytest_gpuperf.records.passes import Invocation, OpenProgress, SelectedTest
    from pytest_gpuperf.records.selection import Selection


class NotReachedError(GpuperfError):
    """The test ended under ncu before a call."""


class Reading(msgspec.Struct):
    """The result of the pass, for a process that replaces this one."""

    unavailable: str
    ending: str
    ranges: list[tuple[str, str, str]]
    """Test, label and name of each range."""
    failures: dict[str, str]
    finished: set[str]
    skipped: set[str]
    kernels: dict[str, list[RawKernel]]
    """Kernels of each range."""
    tests: list[str]
    """Tests of the pass."""


class ProfilingPass:
    """Counters of every call of a run, from one report or kept from an earlier run.

    If there are no counters, `unavailable` says why, and `lookup` returns it.

    Args:
        folder: Folder for plan, report and logs.
        ncu: The installed ncu; None if there is none.
        unavailable: Reason for having no counters.
        chip: Name of the GPU's chip; empty if it is unknown.
        kept: Counters of earlier runs; None to read all.
        required: Raise an error if kept counters do not fit a call.
        launched: Lists the kernels that a call launches.
    """

    def __init__(
        self,
        folder: PassFolder,
        ncu: Ncu | None,
        unavailable: str = "",
        chip: str = "",
        *,
        kept: KeptCounters | None = None,
        required: bool = False,
        launched: Callable[[Call], list[Activity]] = launched_kernels,
    ) -> None:
        self.unavailable = unavailable
        self.notices: list[str] = []
        """Notices for readers of the counters."""
        self.recalled: dict[str, KeptTest] = {}
        """Kept counters by node id; their tests need no others, even if `unavailable` is set."""
        self._ncu = ncu
        self._folder = folder
        self._ranges: dict[tuple[str, str], str] = {}
        self._chip = chip
        self._wanted: dict[str, SelectedTest] = {}
        self._failures: dict[str, str] = {}
        self._finished: set[str] = set()
        self._skipped: set[str] = set()
        self._ending = ""
        self._kernels: dict[str, list[RawKernel]] = {}
        self._kept = kept
        self._required = required
        self._launched = launched

    def run(self, tests: Sequence[SelectedTest], invocation: Invocation, progress: OpenProgress) -> None:
        """Run tests without fitting kept counters under ncu.

        Args:
            tests: The tests.
            invocation: The command that started pytest.
            progress: Shows the progress.
        """
        assert self._ncu is not None
        left = self.recall(tests)
        if left:
            with progress(f"ncu {self._ncu.version} profiles {len(left)} tests") as show:
                self._profile(self._ncu, left, invocation, show)

    def recall(self, wanted: Sequence[SelectedTest]) -> list[SelectedTest]:
        """Take the kept counters of unchanged tests.

        Args:
            wanted: The tests.

        Returns:
            The tests to run under ncu.
        """
        self._wanted = {test.nodeid: test for test in wanted}
        if self._kept is None:
            return list(wanted)
        found = {test.nodeid: self._kept.find(test) for test in wanted}
        self.recalled = {nodeid: kept for nodeid, kept in found.items() if kept is not None}
        return [test for test in wanted if test.nodeid not in self.recalled]

    @property
    def reading(self) -> Reading:
        """The result of the pass."""
        ranges = [(*key, name) for key, name in self._ranges.items()]
        return Reading(
            self.unavailable,
            self._ending,
            ranges,
            self._failures,
            self._finished,
            self._skipped,
            self._kernels,
            list(self._wanted),
        )

    def resume(self, tests: Sequence[SelectedTest], reading: Reading) -> None:
        """Take the result that another process has read.

        Args:
            tests: The tests.
            reading: The result.
        """
        self.recall(tests)
        self.unavailable, self._ending = reading.unavailable, reading.ending
        self._ranges = {(nodeid, label): name for nodeid, label, name in reading.ranges}
        self._failures, self._finished = reading.failures, reading.finished
        self._skipped, self._kernels = reading.skipped, reading.kernels

    def note(self, call: Call) -> None:
        """Note the launches of a call that another reader has read, so that its counters can be kept."""
        if call.nodeid not in self.recalled and (call.nodeid, call.label) in self._ranges:
            self._note(call, self._read_of(call))

    def _note(self, call: Call, kernels: Sequence[RawKernel]) -> None:
        if self._kept is not None:
            # Launches that CUPTI cannot record here could not be compared later.
            with self._kept.guarded(), suppress(CuptiError):
                self._kept.note(call.nodeid, call.label, kernels, self._launched(call))

    def keep(self, read_at: str) -> str:
        """Keep the counters that ncu read in this run for later ones.

        Args:
            read_at: Date of the run.

        Returns:
            Why they could not be kept; empty if they were.
        """
        if self._kept is None or self.unavailable or self.notices:
            return self._kept.problem if self._kept is not None else ""
        ended = self._skipped | (self._finished - self._failures.keys())
        labels: dict[str, set[str]] = {nodeid: set() for nodeid in ended}
        for nodeid, label in self._ranges:
            if nodeid in labels:
                labels[nodeid].add(label)
        self._kept.keep(labels, read_at)
        return self._kept.problem

    def _profile(
        self, ncu: Ncu, wanted: Sequence[SelectedTest], invocation: Invocation, show: Callable[[str], None]
    ) -> None:
        """Run the tests in one process, or in several if a test ends the first."""
        left, first = list(wanted), self._folder
        for number in itertools.count(1):
            folder = first if number == 1 else PassFolder(first.path / str(number))
            told = partial(self._tell, show, len(wanted) - len(left), len(wanted))
            begun = self._process(ncu, folder, left, invocation, told)
            left = [test for test in left if test.nodeid not in begun]
            if not begun or not left or self.unavailable:
                return

    @staticmethod
    def _tell(show: Callable[[str], None], before: int, total: int, done: int) -> None:
        show(f"{before + done}/{total}")

    def _process(
        self,
        ncu: Ncu,
        folder: PassFolder,
        wanted: Sequence[SelectedTest],
        invocation: Invocation,
        told: Callable[[int], None],
    ) -> set[str]:
        """Run tests in one process, and return those that need no other one."""
        self._folder = folder
        folder.write_plan(PassPlan([test.nodeid for test in wanted], first_range=len(self._ranges) + 1))
        metrics = names_to_read((name for test in wanted for name in test.metrics), self._chip)
        command = [
            *ncu.command(folder.report, metrics, [test.regex for test in wanted]),
            *(sys.executable, "-m", "pytest", *invocation.arguments),
        ]
        env = {**os.environ, PROFILING_PASS_ENV: str(folder.path), "LC_ALL": "C"}

        def poll() -> None:
            told(len({event.nodeid for event in folder.events() if not event.began}))

        status = run_child(command, cwd=invocation.cwd, env=env, log=folder.child_log, poll=poll)
        self._ending = f"ended with exit status {status}"
        if status < 0:
            self._ending = f"was ended by signal {-status} ({signal.strsignal(-status)})"
        begun = []
        for event in folder.events():
            if event.began:
                begun.append(event.nodeid)
            elif event.range:
                self._ranges[event.nodeid, event.label] = event.range
            elif event.failure:
                self._failures.setdefault(event.nodeid, event.failure)
                if event.skipped:
                    self._skipped.add(event.nodeid)
            else:
                self._finished.add(event.nodeid)
        broke = begun[-1] if begun and begun[-1] not in {*self._finished, *self._failures} else ""
        if broke:
            slow = re.search(rb"Timeout \(\d+:\d+:", folder.child_log.read_bytes())
            why = f"the process {self._ending} in it"
            self._failures[broke] = "it took too long (--gpuperf-timeout)" if slow else why
            if not folder.report.exists():
                # The counters of the tests before it are lost with the report.
                return {broke}
        self._read(metrics)
        return set(begun)

    def let_go(self) -> None:
        """Do nothing: ncu runs in another process."""

    def _read(self, metrics: Sequence[str]) -> None:
        folder = self._folder
        output = "".join(
            path.read_text(errors="replace") for path in (folder.ncu_log, folder.child_log) if path.exists()
        )
        if not folder.report.exists():
            # An error of ncu explains a missing report; without an error, no kernel matched in any test.
            reason = explain(output)
            if reason is None and not (self._ranges or self._failures or self._finished):
                reason = f"the run under ncu {self._ending} before any test had run; see {folder.shown_log}"
            if reason is not None:
                self.unavailable = reason
            return
        try:
            kernels = self._kernels_of_report(metrics)
        except GpuperfError as error:
            self.unavailable = str(error)
            return
        for kernel in kernels:
            for name in kernel.ranges:
                self._kernels.setdefault(name, []).append(kernel)

    def _kernels_of_report(self, metrics: Sequence[str]) -> list[RawKernel]:
        assert self._ncu is not None
        report = self._folder.report
        try:
            return read_report_isolated(report, metrics, search=ncu_python_dirs(self._ncu.path))
        except GpuperfError as error:
            # ncu can read every report that it wrote, but its CSV rounds to two decimals.
            kernels = read_csv(self._ncu.report_as_csv(report))
            self.notices.append(f"counters were read from ncu's CSV, rounded to two decimals: {error}")
            return kernels

    def lookup(
        self,
        call: Call,
        selection: Selection,
        metrics: Sequence[str],
    ) -> Profile:
        """Return the counters of one call.

        Args:
            call: The call.
            selection: The choice among its kernels.
            metrics: Short names and raw ones to keep.

        Raises:
            GpuperfError: The call was not reached, no kernel matched, a metric is unknown, or counters are
                required and the kept ones do not fit.
        """
        recalled = self.recalled.get(call.nodeid)
        if self.unavailable and recalled is None:
            return Profile(regex=selection.regex or "", unavailable=self.unavailable)
        read_at = recalled.read_at if recalled is not None else ""
        why = self._why_unfit(recalled, call) if recalled is not None else ""
        if why and self._required:
            raise GpuperfError(why)
        if why:
            return Profile(regex=selection.regex or "", unavailable=why, read_at=read_at)
        read = recalled.calls[call.label].kernels if recalled is not None else self._read_of(call)
        wanted = self._wanted.get(call.nodeid)
        kernels = choose(
            call, read, selection, wanted, lambda: [launch.name for launch in self._launched(call)]
        )
        self._check_metrics(kernels, by_kind(metrics)[1])
        if recalled is None:
            self._note(call, read)
        return profile_of(
            kernels,
            metrics,
            selection=selection,
            wanted=wanted,
            source="ncu",
            cache_control=CACHE_CONTROL,
            clock_control=CLOCK_CONTROL,
            chip=self._chip,
            read_at=read_at,
        )

    def _read_of(self, call: Call) -> Sequence[RawKernel]:
        name = self._ranges.get((call.nodeid, call.label))
        if name is None:
            raise self._not_reached(call)
        return self._kernels.get(name, ())

    def _why_unfit(self, recalled: KeptTest, call: Call) -> str:
        """Explain why kept counters do not fit a call; empty if they fit."""
        assert self._kept is not None
        what = f"its counters, kept on {recalled.read_at[:10]},"
        try:
            launched = self._launched(call)
            why = self._kept.why_stale(call.nodeid, recalled.calls.get(call.label), launched)
        except CuptiError as error:
            # They may be right: a run without the other profiler can use them.
            return f"{what} cannot be checked: {error}; --gpuperf-counter-cache=refresh reads them again"
        if not why:
            return ""
        self._kept.drop(call.nodeid)
        return f"{what} do not fit this run: {why}; the next run reads them again"

    def _not_reached(self, call: Call) -> NotReachedError:
        expected = "a test that does the same under ncu, whatever values it reads"
        if call.nodeid in self._failures:
            why = self._failures[call.nodeid]
        elif call.nodeid in self._finished:
            why = "the test ended without this call"
        else:
            why, expected = f"it {self._ending} before", ""
        return NotReachedError(
            f"the run under ncu did not profile {call}: {why}",
            expected=expected,
            next_step=f"see {self._folder.shown_log}",
        )

    def _check_metrics(self, kernels: Sequence[RawKernel], metrics: Iterable[str]) -> None:
        """Refuse names without a value: ncu accepts unknown names silently."""
        for metric in metrics:
            if any(metric in kernel.metrics for kernel in kernels):
                continue
            assert self._ncu is not None
            suffix = metric.partition(".")[2]
            known = [f"{name}.{suffix}" if suffix else name for name in self._ncu.base_metrics()]
            near = difflib.get_close_matches(metric, known)
            raise GpuperfError(
                f"ncu has no value for the metric {metric!r}",
                expected="a metric that `ncu --query-metrics` lists for this GPU, with its suffix",
                next_step=f"did you mean {' or '.join(near)}?" if near else "",
            )
