"""The file of a run: written after each test and at the end, and accepted if the user asked for that."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

from pytest_gpuperf.baseline.merge import accept, refuse_in_ci
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.records import RUN_SCHEMA, Environment, Run
from pytest_gpuperf.records.file_paths import show_path
from pytest_gpuperf.records.pruning import find_old
from pytest_gpuperf.records.run_store import RunStore
from pytest_gpuperf.report.number_format import count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pytest_gpuperf.baseline.store import BaselineStore
    from pytest_gpuperf.records import TestRecord
    from pytest_gpuperf.session.news import News
    from pytest_gpuperf.session.worker_messages import Orders
    from pytest_gpuperf.settings.settings import Settings


def now() -> datetime.datetime:
    """Return the time in UTC."""
    return datetime.datetime.now(datetime.timezone.utc)


def timestamp(moment: datetime.datetime) -> str:
    """Format a time in UTC as in records."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


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
        self._started = orders.started if orders is not None else now()
        self._store = RunStore(settings.state)
        self.folder = self._store.folder / (orders.run_id if orders else RunStore.new_id(self._started))
        """Folder of the run, also for traces and reports."""
        self._written: set[str] = set()

    def run(
        self, environment: Environment, no_counters: str, records: Iterable[TestRecord], *, complete: bool
    ) -> Run:
        """Return the run with some records."""
        return Run(
            schema=RUN_SCHEMA,
            id=self.folder.name,
            started_at=timestamp(self._started),
            environment=environment,
            complete=complete,
            counters_unavailable=no_counters,
            tests=tuple(records),
        )

    def add(self, record: TestRecord, run: Callable[[], Run]) -> None:
        """Write the record of a test at once: the next test may end this process.

        Args:
            record: The test.
            run: Returns the whole run so far.

        Raises:
            OSError: The file cannot be written.
        """
        if record.nodeid in self._written or not self._written:
            self._store.write(run())
        else:
            self._store.append(self.folder.name, record)
        self._written.add(record.nodeid)

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
        for old in find_old(self._settings.state, self._settings.keep):
            old.remove()
            removed += old.is_run
        return f"; {removed} older removed, because gpuperf_keep is {self._settings.keep}" if removed else ""
