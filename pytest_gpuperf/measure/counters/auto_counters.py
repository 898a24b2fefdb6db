"""The readers of `--gpuperf-counters=auto`: CUPTI in the process of the tests, and ncu for the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gpuperf.measure.counters.profiling_pass import NotReachedError
from pytest_gpuperf.measure.cupti.libcupti import CuptiError
from pytest_gpuperf.records import Profile

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pytest_gpuperf.measure.counters.cupti_counters import CuptiCounters
    from pytest_gpuperf.measure.counters.kept_counters import KeptCounters, KeptTest
    from pytest_gpuperf.measure.counters.profiling_pass import ProfilingPass, Reading
    from pytest_gpuperf.records.call import Call
    from pytest_gpuperf.records.passes import Invocation, OpenProgress, SelectedTest
    from pytest_gpuperf.records.selection import Selection

NEXT_RUN = "the next run reads it by ncu"
USE_NCU = "--gpuperf-counters=ncu reads it"


class AutoCounters:
    """Counters by the reader that each call needs.

    A second process is most of the cost of ncu, and CUPTI needs none. ncu runs before the tests: tests whose
    baselines have counters of ncu, so that all of their counters can be compared, tests with a call that
    CUPTI could not read in an earlier run, such as a CUDA graph, and all tests if CUPTI is refused.

    Args:
        in_process: CUPTI's counters; has to raise an error if CUPTI refuses.
        under_ncu: The pass before the tests.
        of_baseline: Returns labels of a test whose counters in the baseline are of ncu.
        kept: Knows which calls CUPTI could not read; None to forget them.
    """

    def __init__(
        self,
        in_process: CuptiCounters,
        under_ncu: ProfilingPass,
        of_baseline: Callable[[str], frozenset[str]],
        kept: KeptCounters | None,
    ) -> None:
        self.unavailable = ""
        """Why the whole run has no counters."""
        self.notices: list[str] = []
        self._in_process = in_process
        self._under_ncu = under_ncu
        self._of_baseline = of_baseline
        self._kept = kept
        self._chosen: dict[str, frozenset[str]] = {}
        """Tests that ncu reads, with the labels of their baselines that are of ncu."""
        self._marked: dict[str, frozenset[str]] = {}
        """Labels that CUPTI could not read in an earlier run, by test."""
        self._refused = ""
        """Why CUPTI reads nothing in this run."""
        self._read_by_cupti: set[tuple[str, str]] = set()

    @property
    def recalled(self) -> Mapping[str, KeptTest]:
        """Kept counters of ncu, by node id."""
        return self._under_ncu.recalled

    @property
    def reading(self) -> Reading:
        """The result of the pass under ncu."""
        return self._under_ncu.reading

    def expect(self, tests: Sequence[SelectedTest]) -> None:
        """Choose the tests that ncu reads."""
        self._in_process.expect(tests)
        self._refused = self._in_process.refusal() if tests else ""
        for test in tests:
            labels = self._of_baseline(test.nodeid)
            marked = self._kept.for_ncu(test.nodeid) if self._kept is not None else frozenset[str]()
            if marked:
                self._marked[test.nodeid] = marked
            if labels or marked or self._refused:
                self._chosen[test.nodeid] = labels

    def chosen(self, tests: Sequence[SelectedTest]) -> list[SelectedTest]:
        """Return the tests that ncu reads, after `expect`."""
        return [test for test in tests if test.nodeid in self._chosen]

    def run(self, tests: Sequence[SelectedTest], invocation: Invocation, progress: OpenProgress) -> None:
        """Run the chosen tests under ncu; if that fails, CUPTI reads what it can.

        Args:
            tests: The tests.
            invocation: The command that started pytest.
            progress: Shows the progress.
        """
        self._under_ncu.run(tests, invocation, progress)
        self.notices += self._under_ncu.notices
        self._settle()
        if self._under_ncu.unavailable and not self._refused:
            self.notices.append(f"ncu has read nothing: {self._under_ncu.unavailable}")
        elif self._refused and not self.unavailable and len(self.recalled) < len(tests):
            self.notices.append(f"ncu has read the counters, in another process: {self._refused}")

    def _settle(self) -> None:
        """Decide if the run has any counters."""
        if self._refused and self._under_ncu.unavailable:
            self.unavailable = f"{self._refused}; {self._under_ncu.unavailable}"

    def resume(self, tests: Sequence[SelectedTest], reading: Reading) -> None:
        """Take the result of the pass that another process has read, after `expect`.

        Args:
            tests: The tests.
            reading: The result.
        """
        covered = set(reading.tests)
        self._chosen = {name: labels for name, labels in self._chosen.items() if name in covered}
        self._under_ncu.resume(self.chosen(tests), reading)
        self._settle()

    def lookup(self, call: Call, selection: Selection, metrics: Sequence[str]) -> Profile:
        """Return the counters of one call.

        Raises:
            GpuperfError: No kernel matched, or ncu did not reach the call.
        """
        kept = call.nodeid in self.recalled
        if self.unavailable and not kept:
            return Profile(regex=selection.regex or "", unavailable=self.unavailable, tolerated=True)
        by_ncu = call.nodeid in self._chosen and (kept or not self._under_ncu.unavailable)
        if by_ncu and (self._refused or call.label in self._chosen[call.nodeid]):
            return self._under_ncu.lookup(call, selection, metrics)
        if self._refused:
            return Profile(regex=selection.regex or "", unavailable=self._refused, tolerated=True)
        try:
            profile = self._in_process.lookup(call, selection, metrics)
        except CuptiError as error:
            # The launches are recorded next, and CUPTI has one user at a time.
            self._in_process.let_go()
            return self._instead(call, selection, metrics, error.found, by_ncu=by_ncu)
        self._read_by_cupti.add((call.nodeid, call.label))
        if by_ncu:
            self._in_process.let_go()
            self._under_ncu.note(call)
        return profile

    def _instead(
        self, call: Call, selection: Selection, metrics: Sequence[str], why: str, *, by_ncu: bool
    ) -> Profile:
        """Return ncu's counters of a call that CUPTI could not read; without them, mark the call."""
        if by_ncu:
            try:
                return self._under_ncu.lookup(call, selection, metrics)
            except NotReachedError as error:
                why = f"{why}; {error}"
        marked = self._kept is not None and self._kept.leave_to_ncu(call.nodeid, call.label)
        if not by_ncu:
            why = f"{why}; {NEXT_RUN if marked and not self._under_ncu.unavailable else USE_NCU}"
        return Profile(regex=selection.regex or "", unavailable=why, tolerated=True)

    def let_go(self) -> None:
        """Detach CUPTI."""
        self._in_process.let_go()

    def keep(self, read_at: str) -> str:
        """Keep the counters that were read.

        Args:
            read_at: Date of the run.

        Returns:
            Why that failed; empty if it did not.
        """
        for nodeid, labels in self._marked.items():
            if self._kept is not None and {(nodeid, label) for label in labels} <= self._read_by_cupti:
                self._kept.leave_to_cupti(nodeid)
        problems = [self._in_process.keep(read_at), self._under_ncu.keep(read_at)]
        return next(filter(None, problems), "")
