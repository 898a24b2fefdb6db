"""Runners that keep their run: they write the run file, and accept it if the user asked for that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gpuperf.baseline.merge import accept, refuse_in_ci
from pytest_gpuperf.errors import GpuperfError, show_exception
from pytest_gpuperf.judge.limits import parse_limits
from pytest_gpuperf.judge.result import TestResult
from pytest_gpuperf.records import RUN_SCHEMA, Run
from pytest_gpuperf.records.json_files import show_path
from pytest_gpuperf.records.pruning import find_old
from pytest_gpuperf.records.runs import RunStore
from pytest_gpuperf.session.base import Runner, now
from pytest_gpuperf.session.marker import ItemState, Marker
from pytest_gpuperf.session.progress import WaitingLine

if TYPE_CHECKING:
    import datetime
    from pathlib import Path

    from pytest_gpuperf.measure.device.lock import GpuLock
    from pytest_gpuperf.records import TestRecord
    from pytest_gpuperf.session.link import Link
    from pytest_gpuperf.session.progress import Terminal
    from pytest_gpuperf.settings.settings import Settings


def timestamp(moment: datetime.datetime) -> str:
    """Format a time in UTC as in records."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


class KeepingRunner(Runner):
    """Writes `.gpuperf/runs/<id>/run.json`, after each test and at the end."""

    def open_run(self, settings: Settings, link: Link | None = None) -> None:
        """Begin a run, before anything is measured.

        Raises:
            GpuperfError: Baselines cannot be updated here.
        """
        if settings.update != "never":
            refuse_in_ci()
        self.link = link
        self._started = link.orders.started if link else now()
        self._written: set[str] = set()
        self.runs = RunStore(settings.state)
        self.run_id = link.orders.run_id if link else RunStore.new_id(self._started)

    @property
    def folder(self) -> Path:
        """Folder of the run, with its traces."""
        return self.runs.folder / self.run_id

    @property
    def shown_run(self) -> Run:
        """This run, as far as it has come."""
        return self._as_run(complete=True)

    def take(self, result: TestResult) -> None:
        """Keep a result, and write its record at once: the next test may end this process."""
        again = result.record.nodeid in self._written
        self._results[result.record.nodeid] = result
        try:
            if again or not self._written:
                self.runs.write(self._as_run(complete=False))
            else:
                self.runs.append(self.run_id, result.record)
        except Exception as error:
            why = error if isinstance(error, OSError) else show_exception(error)
            self.notices.append(f"error: {result.record.nodeid} was not written while the run went on: {why}")
            return
        self._written.add(result.record.nodeid)

    def expect_all(self) -> None:
        """Read the baselines of all tests that were selected, if that is not done."""

    def judge_again(self, record: TestRecord) -> TestResult:
        """Judge a test that has ended, with counters that came later; return the new result."""
        marker = Marker(limits=parse_limits(list(record.limits)), tolerance_pct=record.tolerance_pct or None)
        state = ItemState(record.nodeid, marker, measurements=dict(record.measurements))
        result = TestResult(record, self._verdict(record, state))
        self._results[record.nodeid] = result
        return result

    def wait_for(self, lock: GpuLock, terminal: Terminal | None) -> None:
        """Wait until no other run measures on this GPU; if that cannot be known, go on with a notice."""
        try:
            with WaitingLine(terminal, lock.gpu) as waiting:
                lock.acquire(waiting)
        except GpuperfError as error:
            self.notices.append(f"not locked: {error}; another run could measure at the same time")

    def _prune(self) -> str:
        """Remove old runs and reports, and return what to tell about it."""
        removed = 0
        for old in find_old(self.settings.state, self.settings.keep):
            old.remove()
            removed += old.is_run
        return f"; {removed} older removed, because gpuperf_keep is {self.settings.keep}" if removed else ""

    def _as_run(self, *, complete: bool) -> Run:
        return Run(
            schema=RUN_SCHEMA,
            id=self.run_id,
            started_at=timestamp(self._started),
            environment=self.environment,
            complete=complete,
            counters_unavailable=self.why_no_counters,
            tests=tuple(result.record for result in self.results),
        )

    def finish(self, *, complete: bool) -> None:
        """Write the run file; update baselines if that was asked for and the run is complete."""
        if not self.results or self.link is not None:
            return
        run = self._as_run(complete=complete)
        path = self.runs.write(run)
        self.notices.append(f"run written to {show_path(path)}{self._prune()}")
        if self.settings.update == "never":
            return
        if not complete:
            raise GpuperfError(
                "the run was interrupted, so no baseline was updated",
                next_step="accept its measurements with "
                f"`gpuperf baseline accept {self.run_id} --incomplete`",
            )
        plan = accept(run, self.expected.store, self.settings.update, self.settings.tolerance_pct)
        self.updated = True
        taken = len(plan.of_kind("new", "changed", "refreshed"))
        refused = len(plan.of_kind("refused"))
        self.notices.append(
            f"baseline updated ({self.settings.update}): {taken} measurements in {len(plan.files)} files"
            + (f", {refused} refused (gpuperf baseline accept --dry-run says why)" if refused else "")
        )
