"""The readers of `--gpuperf-counters=auto`: CUPTI in the process of the tests, and ncu where it is needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from pytest_gpuperf.measure.cupti.libcupti import CuptiError
from pytest_gpuperf.records import Profile

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pytest_gpuperf.measure.counters.cupti_counters import CuptiCounters
    from pytest_gpuperf.measure.counters.kept_counters import KeptTest
    from pytest_gpuperf.measure.counters.profiling_pass import ProfilingPass, Reading
    from pytest_gpuperf.records.call import Call
    from pytest_gpuperf.records.passes import Invocation, OpenProgress, SelectedTest
    from pytest_gpuperf.records.selection import Selection


class AutoCounters:
    """Counters by the reader that each test needs.

    CUPTI needs no second process, which takes most of ncu's time. ncu reads, before any test runs, the tests
    whose baselines it has read, so that all of their counters can be compared, and all tests if CUPTI is
    refused altogether. It reads a test by itself if CUPTI cannot read one of its calls, such as a CUDA graph.

    Args:
        in_process: CUPTI's counters; has to raise an error if CUPTI refuses.
        before: The pass before the tests.
        one_more: Makes a pass for one test, by its number.
        read_by_ncu: Returns True if ncu has read the baseline of a test.
    """

    def __init__(
        self,
        in_process: CuptiCounters,
        before: ProfilingPass,
        one_more: Callable[[int], ProfilingPass],
        read_by_ncu: Callable[[str], bool],
    ) -> None:
        self.unavailable = ""
        """Why the whole run has no counters."""
        self.notices: list[str] = []
        self._in_process = in_process
        self._before = before
        self._one_more = one_more
        self._read_by_ncu = read_by_ncu
        self._tests: dict[str, SelectedTest] = {}
        self._under_ncu: frozenset[str] = frozenset()
        self._refused = ""
        """Why CUPTI reads nothing in this run."""
        self._alone: dict[str, ProfilingPass] = {}
        """Passes of single tests, by node id."""
        self._ask_ncu: Callable[[ProfilingPass, SelectedTest], None] | None = None
        self._why: dict[str, list[str]] = {}
        """Names of those tests, by CUPTI's reason."""
        self._no_ncu = ""

    @property
    def recalled(self) -> Mapping[str, KeptTest]:
        """Kept counters by node id."""
        return self._before.recalled

    @property
    def reading(self) -> Reading:
        """The result of the pass before the tests."""
        return self._before.reading

    def expect(self, tests: Sequence[SelectedTest], invocation: Invocation, progress: OpenProgress) -> None:
        """Choose the reader of each test.

        Args:
            tests: The tests.
            invocation: The command that started pytest.
            progress: Shows the progress of a pass for one test.
        """
        self._tests = {test.nodeid: test for test in tests}
        self._in_process.expect(tests)
        self._ask_ncu = lambda each, test: each.run([test], invocation, progress)
        self._refused = self._in_process.refusal() if tests else ""
        self._under_ncu = frozenset(name for name in self._tests if self._refused or self._read_by_ncu(name))
        if self._refused:
            self.notices.append(f"ncu reads all counters, in a process of its own: {self._refused}")

    def run(self, tests: Sequence[SelectedTest], invocation: Invocation, progress: OpenProgress) -> None:
        """Run the tests that need ncu under it, after `expect`.

        Args:
            tests: The tests.
            invocation: The command that started pytest.
            progress: Shows the progress.
        """
        self._before.run(self._chosen(tests), invocation, progress)
        self.notices += self._before.notices

    def resume(self, tests: Sequence[SelectedTest], reading: Reading) -> None:
        """Take the result of the pass that another process has read, after `expect`.

        Args:
            tests: The tests.
            reading: The result.
        """
        self._before.resume(self._chosen(tests), reading)

    def _chosen(self, tests: Sequence[SelectedTest]) -> list[SelectedTest]:
        return [test for test in tests if test.nodeid in self._under_ncu]

    def lookup(self, call: Call, selection: Selection, metrics: Sequence[str]) -> Profile:
        """Return the counters of one call.

        Raises:
            GpuperfError: No kernel matched, or the reader lacks a metric.
        """
        if self.unavailable:
            return Profile(regex=selection.regex or "", unavailable=self.unavailable)
        by_ncu = self._alone.get(call.nodeid)
        if call.nodeid in self._under_ncu and (self._refused or not self._before.unavailable):
            by_ncu = self._before
        why = ""
        if by_ncu is None:
            try:
                return self._in_process.lookup(call, selection, metrics)
            except CuptiError as error:
                by_ncu, why = self._read_alone(call, error), f"{error}; "
        if by_ncu is None:
            return Profile(regex=selection.regex or "", unavailable=why.removesuffix("; "), tolerated=True)
        profile = by_ncu.lookup(call, selection, metrics)
        if not profile.unavailable or profile.read_at:
            return profile
        return replace(profile, unavailable=f"{why}{profile.unavailable}", tolerated=True)

    def _read_alone(self, call: Call, error: CuptiError) -> ProfilingPass | None:
        """Run the test of a call under ncu; None if ncu has failed before."""
        if self._no_ncu or self._before.unavailable or self._ask_ncu is None:
            return None
        # One process at a time can have the counters of a GPU.
        self._in_process.let_go()
        each = self._alone[call.nodeid] = self._one_more(len(self._alone) + 1)
        self._ask_ncu(each, self._tests[call.nodeid])
        self._no_ncu = each.unavailable
        if not each.unavailable and call.nodeid not in each.recalled:
            self._why.setdefault(error.found, []).append(call.nodeid.rpartition("/")[2])
        return each

    def let_go(self) -> None:
        """Detach CUPTI."""
        self._in_process.let_go()

    def keep(self, read_at: str) -> str:
        """Keep the counters that were read; return why that failed, or an empty text."""
        passes = (self._before, *self._alone.values())
        problems = [self._in_process.keep(read_at), *(each.keep(read_at) for each in passes)]
        return next(filter(None, problems), "")

    @property
    def read_alone(self) -> list[str]:
        """Notices on the tests that ncu has read by themselves."""
        found = []
        for why, (first, *others) in self._why.items():
            more = f" and {len(others)} more" if others else ""
            found.append(f"ncu has read {first}{more} in a process of its own, which takes longer: {why}")
        return found
