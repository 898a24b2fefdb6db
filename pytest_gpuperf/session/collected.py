"""The run of the controller: its results come from the process that runs the tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gpuperf.baseline.expectations import Expectations
from pytest_gpuperf.errors import NoGpuError
from pytest_gpuperf.session.keeping import KeepingRunner

if TYPE_CHECKING:
    import datetime

    from pytest_gpuperf.session.link import Facts
    from pytest_gpuperf.settings.settings import Settings


class CollectedRunner(KeepingRunner):
    """Keeps the results of workers, and reports them.

    Args:
        settings: The options.
        facts: The first facts of the run.
        started: Begin of the run.
        run_id: Id of the run.
    """

    def __init__(self, settings: Settings, facts: Facts, started: datetime.datetime, run_id: str) -> None:
        self.open_run(settings)
        self._started, self.run_id = started, run_id
        super().__init__(settings, NoGpuError("the controller measures nothing"), facts.environment)
        self._why_no_counters = ""
        self.update(facts)

    def update(self, facts: Facts) -> None:
        """Take newer facts; the notices of all workers stay."""
        super().update(facts)
        self.environment = facts.environment
        self.counters_unavailable = facts.counters_unavailable
        self._why_no_counters = facts.why_no_counters

    def expect_all(self) -> None:
        """Read the baselines of all tests that the workers selected, and judge each by its own card."""
        records = (result.record for result in self.results)
        cards = {record.nodeid: record.gpu_uuid for record in records if record.gpu_uuid}
        self.expected = Expectations(self.expected.store, self.environment.gpu, cards)
        for nodeid in self.lines:
            self.expect(nodeid)

    @property
    def why_no_counters(self) -> str:
        """Reason why the whole run has no counters."""
        return self._why_no_counters
