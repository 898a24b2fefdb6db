"""The profiling pass: run the selected tests under ncu, and read its report."""

from __future__ import annotations

import itertools
import os
import re
import signal
import sys
from typing import TYPE_CHECKING

import msgspec

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.counters.counter_source import CounterSource, RawKernel, names_to_read
from pytest_gpuperf.measure.ncu.ncu_failures import explain
from pytest_gpuperf.processes.children import run_child
from pytest_gpuperf.records import Profile
from pytest_gpuperf.records.passes import PassFolder, PassPlan
from pytest_gpuperf.registry import instrument
from pytest_gpuperf.settings.settings import PROFILING_PASS_ENV

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_gpuperf.measure.cupti.activity import Activity
    from pytest_gpuperf.measure.ncu.tool import Ncu
    from pytest_gpuperf.records.call import Call, Selection
    from pytest_gpuperf.records.passes import Invocation, OpenProgress, SelectedTest


def launched_kernels(call: Call) -> list[Activity]:
    """Return the kernels that a call launches, in order, as CUPTI records them.

    Raises:
        CuptiError: CUPTI cannot record them.
    """
    from pytest_gpuperf.measure.cupti.activity import recorded

    call()
    with recorded() as activities:
        call()
    return [activity for activity in activities if activity.name]


class PassReading(msgspec.Struct):
    """The result of the pass, also for a process that replaces this one."""

    ending: str = ""
    ranges: dict[str, dict[str, str]] = {}
    """Name of the range of each call, by test and label."""
    failures: dict[str, str] = {}
    finished: set[str] = set()
    kernels: dict[str, list[RawKernel]] = {}
    """Kernels of each range."""


class ProfilingPass(CounterSource):
    """Counters of every call of some tests, from one report.

    If there are no counters, `unavailable` says why, and `lookup` returns it.

    Args:
        folder: Folder for plan, report and logs.
        ncu: The installed ncu; None if there is none.
        unavailable: Reason for having no counters.
        chip: Name of the GPU's chip; empty if it is unknown.
        card: UUID of the GPU to run on; empty for that of this process.
        launched: Lists the kernels that a call launches.
    """

    def __init__(
        self,
        folder: PassFolder,
        ncu: Ncu | None,
        unavailable: str = "",
        chip: str = "",
        *,
        card: str = "",
        launched: Callable[[Call], list[Activity]] = launched_kernels,
    ) -> None:
        super().__init__("ncu", chip, unavailable)
        self.reading = PassReading()
        self._ncu = ncu
        self._folder = folder
        self._card = card
        self._launched = launched

    def run(self, tests: Sequence[SelectedTest], invocation: Invocation, progress: OpenProgress) -> None:
        """Run the tests under ncu.

        Args:
            tests: The tests.
            invocation: The command that started pytest.
            progress: Shows the progress.
        """
        ncu, first, left = self._ncu, self._folder, list(tests)
        assert ncu is not None
        self.expect(tests)
        with progress(f"ncu {ncu.version} profiles {len(tests)} test{'s' * (len(tests) > 1)}") as show:
            # In one process, or in several if a test ends the first.
            for number in itertools.count(1):

                def told(done: int, before: int = len(tests) - len(left)) -> None:
                    show(f"{before + done}/{len(tests)}")

                folder = first if number == 1 else PassFolder(first.path / str(number))
                begun = self._process(ncu, folder, left, invocation, told)
                left = [test for test in left if test.nodeid not in begun]
                if not begun or not left or self.unavailable:
                    return

    def _process(
        self,
        ncu: Ncu,
        folder: PassFolder,
        wanted: Sequence[SelectedTest],
        invocation: Invocation,
        told: Callable[[int], None],
    ) -> set[str]:
        """Run tests in one process, and return those that need no other one."""
        self._folder, read = folder, self.reading
        ranges = sum(map(len, read.ranges.values()))
        folder.write_plan(PassPlan([test.nodeid for test in wanted], first_range=ranges + 1))
        metrics = names_to_read((name for test in wanted for name in test.metrics), self._chip)
        command = [
            *ncu.command(folder.report, metrics, [test.regex for test in wanted]),
            *(sys.executable, "-m", "pytest", *invocation.arguments),
        ]
        env = {**os.environ, PROFILING_PASS_ENV: str(folder.path), "LC_ALL": "C"}
        if self._card:
            env["CUDA_VISIBLE_DEVICES"] = self._card

        def poll() -> None:
            told(len({event.nodeid for event in folder.events() if not event.began}))

        status = run_child(command, cwd=invocation.cwd, env=env, log=folder.child_log, poll=poll)
        read.ending = f"ended with exit status {status}"
        if status < 0:
            read.ending = f"was ended by signal {-status} ({signal.strsignal(-status)})"
        begun = []
        for event in folder.events():
            if event.began:
                begun.append(event.nodeid)
            elif event.range:
                read.ranges.setdefault(event.nodeid, {})[event.label] = event.range
            elif event.failure:
                read.failures.setdefault(event.nodeid, event.failure)
            else:
                read.finished.add(event.nodeid)
        broke = begun[-1] if begun and begun[-1] not in {*read.finished, *read.failures} else ""
        if broke:
            slow = re.search(rb"Timeout \(\d+:\d+:", folder.child_log.read_bytes())
            why = f"the process {read.ending} in it"
            read.failures[broke] = "it took too long (--gpuperf-timeout)" if slow else why
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
            read = self.reading
            if reason is None and not (read.ranges or read.failures or read.finished):
                reason = f"the run under ncu {read.ending} before any test had run; see {folder.shown_log}"
            if reason is not None:
                self.unavailable = reason
            return
        assert self._ncu is not None
        try:
            reader = instrument("ncu")
            kernels: list[RawKernel] = reader.read_report_isolated(folder.report, metrics, ncu=self._ncu.path)
        except GpuperfError as error:
            self.unavailable = str(error)
            return
        for kernel in kernels:
            for name in kernel.ranges:
                self.reading.kernels.setdefault(name, []).append(kernel)

    def lookup(self, call: Call, selection: Selection, metrics: Sequence[str]) -> Profile:
        """Return the counters of one call.

        Args:
            call: The call.
            selection: The choice among its kernels.
            metrics: Short names and raw ones to keep.

        Raises:
            GpuperfError: The call was not reached, no kernel matched, or a metric is unknown.
        """
        if self.unavailable:
            return Profile(regex=selection.regex or "", unavailable=self.unavailable)
        name = self.reading.ranges.get(call.nodeid, {}).get(call.label)
        if name is None:
            raise self._not_reached(call)
        read = self.reading.kernels.get(name, ())
        kernels = self.choose(call, read, selection, lambda: [launch.name for launch in self._launched(call)])
        return self.profile_of(call, kernels, selection, metrics)

    def _not_reached(self, call: Call) -> GpuperfError:
        expected = "a test that does the same under ncu, whatever values it reads"
        if call.nodeid in self.reading.failures:
            why = self.reading.failures[call.nodeid]
        elif call.nodeid in self.reading.finished:
            why = "the test ended without this call"
        else:
            why, expected = f"it {self.reading.ending} before", ""
        return GpuperfError(
            f"the run under ncu did not profile {call}: {why}",
            expected=expected,
            next_step=f"see {self._folder.shown_log}",
        )
