"""Kept counters of single calls, for CUPTI: it reads a call whose kept counters do not fit at once."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from pytest_gpuperf.measure.counters.kept_counters import launched_kernels
from pytest_gpuperf.measure.cupti.libcupti import CuptiError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pytest_gpuperf.measure.counters.kept_counters import KeptCall, KeptCounters, KeptTest
    from pytest_gpuperf.measure.cupti.activity import Activity
    from pytest_gpuperf.measure.ncu.raw_kernel import RawKernel
    from pytest_gpuperf.records.call import Call
    from pytest_gpuperf.records.passes import SelectedTest


class KeptCalls:
    """Counters that earlier runs of an unchanged project have read, call by call.

    Args:
        kept: Has the files.
        launched: Lists the kernels that a call launches.
    """

    def __init__(
        self, kept: KeptCounters, launched: Callable[[Call], list[Activity]] = launched_kernels
    ) -> None:
        self._kept = kept
        self._launched = launched
        self._tests: dict[str, KeptTest | None] = {}
        self._used: dict[str, dict[str, KeptCall]] = {}
        self._read: dict[str, set[str]] = {}
        """Labels that were read in this run, by test."""
        self._varying: set[str] = set()

    def find(self, call: Call, wanted: SelectedTest) -> tuple[Sequence[RawKernel], str] | None:
        """Return the kernels of a call and the date when they were read; None if they have to be read.

        Args:
            call: The call; it is called twice if there are some.
            wanted: The request of its test.
        """
        if call.nodeid not in self._tests:
            self._tests[call.nodeid] = self._kept.find(wanted)
        test = self._tests[call.nodeid]
        one = test.calls.get(call.label) if test is not None else None
        if test is None or one is None:
            return None
        # If CUPTI refuses, it refuses to read, too, and tells why.
        with self._kept.guarded(), suppress(CuptiError):
            if not self._kept.why_stale(call.nodeid, one, self._launched(call)):
                self._used.setdefault(call.nodeid, {})[call.label] = one
                return one.kernels, test.read_at
            # Something else than the sources decides the launches, such as an autotuner.
            self._kept.drop(call.nodeid)
            self._tests[call.nodeid] = None
            self._varying.add(call.nodeid)
        return None

    def note(self, call: Call, kernels: Iterable[RawKernel], launched: Iterable[Activity]) -> None:
        """Remember counters that were read in this run.

        Args:
            call: The call.
            kernels: Its kernels with their counters.
            launched: The same launches.
        """
        if call.nodeid not in self._varying:
            with self._kept.guarded():
                self._kept.note(call.nodeid, call.label, kernels, launched)
                self._read.setdefault(call.nodeid, set()).add(call.label)

    def keep(self, read_at: str) -> str:
        """Write what was read, next to what was used again; a test has the date of its oldest counters.

        Args:
            read_at: Date of the run.

        Returns:
            Why that failed; empty if it did not.
        """
        of_dates: dict[str, dict[str, set[str]]] = {read_at: {}}
        for nodeid, labels in self._read.items():
            if nodeid in self._varying:
                continue
            used = self._used.get(nodeid, {})
            for label, one in used.items():
                self._kept.carry(nodeid, label, one)
            test = self._tests.get(nodeid)
            date = test.read_at if used and test is not None else read_at
            of_dates.setdefault(date, {})[nodeid] = {*labels, *used}
        for date, tests in of_dates.items():
            self._kept.keep(tests, date)
        return self._kept.problem
