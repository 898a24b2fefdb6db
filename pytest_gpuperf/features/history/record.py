"""Line of the history: the time of one test in one run, with what may have changed it."""

from __future__ import annotations

import re

from pytest_gpuperf.records.base import Record
from pytest_gpuperf.records.baseline import suite_of
from pytest_gpuperf.records.quantities import Clock, Date, DateOrNone, Schema, StandardError, Time, TimeOrZero
from pytest_gpuperf.records.timing import TimingMode, TimingSource
from pytest_gpuperf.statistics.clock_model import ClockModel

HISTORY_SCHEMA = 1
"""Version of a line. A reader refuses a newer one and leaves the file as it is."""
COMMIT = re.compile(r"[0-9a-f]{7,64}")
"""Form of a commit's id. Other text from a run file never becomes an argument of git."""


class HistoryLine(Record, frozen=True, kw_only=True):
    """Time of one test in one run."""

    schema: Schema
    test: str
    """Node id."""
    label: str = "main"
    gpu: str
    """Model of the GPU, as the folder below the baselines: `nvidia-h200`."""
    gpu_name: str = ""
    gpu_uuid: str = ""
    """Card; empty if the driver hides it."""
    run: str
    date: Date
    """Start of the run: UTC, ISO 8601."""
    url: str = ""
    """Address of the CI job that measured; empty if it is not known."""
    commit: str = ""
    """Commit of the tested code; empty if it is not known."""
    commit_date: DateOrNone = ""
    """Date of the commit, ISO 8601; empty if the repository did not know the commit."""
    dirty: bool | None = None
    """True if tracked files differed from the commit; None if it is not known."""
    mode: TimingMode
    source: TimingSource = "events"
    time_us: Time
    """As measured, in microseconds a call."""
    standard_error: StandardError = 0.0
    """Standard error of the time within its session, as a part of the time; 0 if there are too few blocks."""
    sm_clock_mhz: Clock = 0.0
    """Mean SM clock during the measurement, in MHz; 0 if unknown."""
    normalised_us: TimeOrZero = 0.0
    """Time at the `reference_mhz` of `clock_model`; 0 without a model."""
    clock_model: ClockModel | None = None
    driver: str = ""
    torch: str = ""
    triton: str = ""

    @property
    def known_commit(self) -> str:
        """The commit if it has the form of one: it becomes an argument of git."""
        return self.commit if COMMIT.fullmatch(self.commit) else ""

    @property
    def key(self) -> tuple[str, str, str, str]:
        """GPU, run, test and label, of which a history has one line."""
        return self.gpu, self.run, self.test, self.label

    @property
    def place(self) -> tuple[str, str]:
        """GPU and suite: each has a file."""
        return self.gpu, suite_of(self.test)
