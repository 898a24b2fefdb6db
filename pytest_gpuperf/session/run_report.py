"""The results of a run: kept, written to its file after each test, summed up, or told to the controller."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from pytest_gpuperf.baseline.acceptance import accept, refuse_in_ci
from pytest_gpuperf.errors import GpuperfError, show_exception
from pytest_gpuperf.judge.result import Status, TestResult
from pytest_gpuperf.records import NO_GPU, RUN_SCHEMA, Run
from pytest_gpuperf.records.files import show_path
from pytest_gpuperf.records.pruning import RUNS_KEPT, find_old
from pytest_gpuperf.records.run_store import RunStore
from pytest_gpuperf.report.number_format import count
from pytest_gpuperf.session.worker_messages import Facts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_gpuperf.baseline.store import BaselineStore
    from pytest_gpuperf.records import TestRecord
    from pytest_gpuperf.records.passes import SelectedTest
    from pytest_gpuperf.report.rows import Summary
    from pytest_gpuperf.session.judge import Judge
    from pytest_gpuperf.session.progress import News
    from pytest_gpuperf.session.worker_messages import Link, Orders
    from pytest_gpuperf.settings.settings import Settings


def now() -> datetime.datetime:
    """Return the time in UTC."""
    return datetime.datetime.now(datetime.timezone.utc)


class RunFile:
    """Writes `.gpuperf/runs/<id>/run.json`.

    Args:
        settings: The options.
        orders: Those of a worker; None if this process does everything.

    Raises:
        GpuperfError: Baselines cannot be updated here.
    """

    def __init__(self, settings: Settings, orders: Orders | None = None) -> None:
        if settings.update != "never":
            refuse_in_ci()
        self._settings = settings
        self.started = orders.started if orders is not None else now()
        self._store = RunStore(settings.state)
        self.folder = self._store.folder / (orders.run_id if orders else RunStore.new_id(self.started))
        """Folder of the run, also for traces and reports."""
        self._written: set[str] = set()

    def add(self, record: TestRecord, run: Callable[[], Run]) -> None:
        """Write the record of a test at once: the next test may end this process.

        Args:
            record: The test.
            run: Returns the whole run so far.

        Raises:
            OSError: The file cannot be written.
        """
        written, self._written = self._written, set()  # none after an error: an append may be incomplete
        if record.nodeid in written or not written:
            self._store.write(run())
        else:
            self._store.append(self.folder.name, record)
        written.add(record.nodeid)
        self._written = written

    def finish(self, run: Run, store: BaselineStore, news: News) -> bool:
        """Write the whole run, and make it the baseline if that was asked for and it is complete.

        Returns:
            True if it has become the baseline.

        Raises:
            GpuperfError: It was interrupted, or a baseline file is broken.
            OSError: A file cannot be written.
        """
        update = self._settings.update
        news.note(f"run written to {show_path(self._store.write(run))}{self._prune()}")
        if update == "never":
            return False
        if not run.complete:
            raise GpuperfError(
                "the run was interrupted, so no baseline was updated",
                next_step=f"accept its measurements with `gpuperf baseline accept {run.id} --incomplete`",
            )
        plan = accept(run, store, update, self._settings.tolerance_pct)
        accepted, refused = len(plan.of_kind("new", "changed", "refreshed")), len(plan.of_kind("refused"))
        why = f", {refused} refused (gpuperf baseline accept --dry-run says why)" if refused else ""
        counts = f"{count(accepted, 'measurement')} in {count(len(plan.files), 'file')}"
        news.note(f"baseline updated ({update}): {counts}{why}")
        return True

    def _prune(self) -> str:
        """Remove old runs and reports, and return what to tell about it."""
        removed = 0
        for old in find_old(self._settings.state):
            old.remove()
            removed += old.is_run
        return f"; {removed} older removed: the newest {RUNS_KEPT} are kept" if removed else ""


class End(NamedTuple):
    """End of the execution of pytest."""

    complete: bool
    """False if it was interrupted."""
    status: int
    """Exit status of pytest."""
    failed: Mapping[str, str]
    """Messages of failed tests by node id."""


class RunReport:
    """Keeps the results of a run.

    Args:
        judge: The judge of the run.
        news: What its reader should know besides the verdicts.
        file: The run file; None for a replay.
        replayed_from: The newest of the recorded runs if nothing is measured.
        skipped: Why tests were skipped, by node id; grows during the run.
        link: Leads to the controller, which keeps the results; None if this process does.
    """

    def __init__(
        self,
        judge: Judge,
        news: News,
        file: RunFile | None = None,
        *,
        replayed_from: Run | None = None,
        skipped: dict[str, str] | None = None,
        link: Link | None = None,
    ) -> None:
        self.judge = judge
        self.news = news
        self.unfinished: dict[str, SelectedTest] = {}
        """Tests of which something is left to do when all have ended, by node id."""
        self._file = file
        self._link = link
        self._updated = False
        self._results: dict[str, TestResult] = {}
        self._expected_failures: set[str] = set()
        self.facts = Facts(judge.environment, {}, skipped if skipped is not None else {}, None)
        """The run without its results."""
        if replayed_from is not None:
            self.replay_from(replayed_from)

    @property
    def results(self) -> list[TestResult]:
        """The results in the order of the tests; the last one of a test that ran again."""
        places = {nodeid: place for place, nodeid in enumerate(self.facts.lines)}
        return sorted(self._results.values(), key=lambda one: places.get(one.record.nodeid, len(places)))

    def replay_from(self, run: Run) -> None:
        """Show a recorded run as the one that has the tests."""
        self.facts.replayed_from = replace(run, tests=())

    def update(self, facts: Facts) -> None:
        """Add the facts of a worker."""
        self.facts.lines.update(facts.lines)
        self.facts.skipped.update(facts.skipped)
        self.judge.environment.toolchain.packages.update(facts.environment.toolchain.packages)

    def select(self, nodeid: str, line: int) -> None:
        """Add a test, and its line in its file, from 1 on."""
        self.facts.lines[nodeid] = line

    def expect_failure(self, *nodeids: str) -> None:
        """Note the names of a test that has failed as expected."""
        self._expected_failures.update(nodeids)

    def take(self, result: TestResult) -> None:
        """Keep a result, and write its record."""
        if self._link is not None:
            self._link.tell(result)
            return
        nodeid = result.record.nodeid
        self._results[nodeid] = result
        self.unfinished.pop(nodeid, None)
        if result.unfinished is not None:
            self.unfinished[nodeid] = result.unfinished
        try:
            if self._file is not None:
                self._file.add(result.record, lambda: self.run(complete=False))
        except OSError:
            pass  # the end writes all tests again, or says why it cannot
        except Exception as error:
            why = show_exception(error)
            self.news.note(f"error: {nodeid} was not written while the run went on: {why}")

    def run(self, *, complete: bool = True) -> Run:
        """Return the run so far; in a replay, the recorded one with its tests as they are now."""
        records = tuple(result.record for result in self.results)
        if self.facts.replayed_from is not None:
            return replace(self.facts.replayed_from, tests=records)
        assert self._file is not None
        return Run(
            schema=RUN_SCHEMA,
            id=self._file.folder.name,
            started_at=self._file.started.strftime("%Y-%m-%dT%H:%M:%SZ"),
            environment=self.judge.environment,
            complete=complete,
            counters_unavailable=self.news.no_counters,
            tests=records,
        )

    def finish(self, *, complete: bool, passed: bool) -> None:
        """Write the run, and the baselines if the user asked for that; note what fails the run.

        Args:
            complete: False if it was interrupted.
            passed: True if pytest has found no fault.

        Raises:
            GpuperfError: The baselines cannot be updated.
            OSError: A file cannot be written.
        """
        settings, gpu = self.judge.settings, self.judge.environment.gpu
        judged = (one for one in self.results if one.record.sanitizer or one.status is not Status.INVALID)
        if passed and not any(one.record.measurements or one.record.sanitizer for one in judged):
            skips, why = len(self.facts.skipped), next(iter(self.facts.skipped.values()), "")
            skipped = f", {skips} {'was' if skips == 1 else 'were'} skipped: {why}" if skips else ""
            self.news.error(f"no test was judged{skipped}")
        may_lack = not self._results or gpu.slug == NO_GPU.slug or settings.update != "never"
        if settings.strict and not may_lack and not self.judge.expected.store.suites(gpu.slug):
            makes = self.judge.accept(self.results[0].record.nodeid)
            self.news.error(f"there is no baseline for {gpu.slug} (--gpuperf-strict); {makes} makes one")
        if self._file is not None and self._results:
            run, store = self.run(complete=complete), self.judge.expected.store
            self._updated = self._file.finish(run, store, self.news)

    def summary(self) -> Summary:
        """Return the results with all that a report shows."""
        from pytest_gpuperf.report.rows import Summary

        settings, replayed_from = self.judge.settings, self.facts.replayed_from
        off = settings.counters == "off" and replayed_from is None
        return Summary(
            results=self.results,
            environment=replayed_from.environment if replayed_from else self.judge.environment,
            replayed_from=replayed_from,
            recorded=self.judge.recorded,
            counters_unavailable="" if off else self.news.no_counters,
            updated=self._updated,
            notices=self.news.notices,
            expected_failures=self._expected_failures,
            lines=self.facts.lines,
            root=settings.root,
            folder=self._file.folder if self._file is not None else None,
        )
