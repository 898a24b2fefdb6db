"""Runners that keep their run: they write the run file, and accept it if the user asked for that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gpuperf.baseline.merge import accept, refuse_in_ci
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.records import RUN_SCHEMA, Run
from pytest_gpuperf.records.runs import STATE_FOLDER, RunStore
from pytest_gpuperf.session.base import Runner, now

if TYPE_CHECKING:
    import datetime

    from pytest_gpuperf.settings.settings import Settings


def timestamp(moment: datetime.datetime) -> str:
    """Format a time in UTC as in records."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


class KeepingRunner(Runner):
    """Writes `.gpuperf/runs/<id>/run.json`."""

    def open_run(self, settings: Settings) -> None:
        """Begin a run, before anything is measured.

        Raises:
            GpuperfError: Baselines cannot be updated here.
        """
        if settings.update != "never":
            refuse_in_ci()
        self._started = now()
        self.runs = RunStore(settings.root / STATE_FOLDER)
        self.run_id = RunStore.new_id(self._started)

    @property
    def why_no_counters(self) -> str:
        """Reason why the whole run has no counters; empty if no test asks for any."""
        return ""

    def finish(self, *, complete: bool) -> None:
        """Write the run file; update baselines if that was asked for and the run is complete."""
        if not self.results:
            return
        run = Run(
            schema=RUN_SCHEMA,
            id=self.run_id,
            started_at=timestamp(self._started),
            environment=self.environment,
            complete=complete,
            counters_unavailable=self.why_no_counters,
            tests=tuple(result.record for result in self.results),
        )
        path = self.runs.write(run)
        with self.guarded("pruning"):
            self.runs.drop_old_reports()
        shown = path.relative_to(self.settings.root)
        self.notices.append(f"run written to {shown}")
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
            + (f", {refused} refused (gpuperf baseline diff says why)" if refused else "")
        )
