"""Line of the history: the time of one test in one run, with what may have changed it; and files of lines."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.records.base import Record
from pytest_gpuperf.records.baseline import suite_of
from pytest_gpuperf.records.decoding import decode_versioned
from pytest_gpuperf.records.number_ranges import (
    Clock,
    Date,
    DateOrNone,
    Schema,
    StandardError,
    Time,
    TimeOrZero,
)
from pytest_gpuperf.records.run_store import refuse_unsafe_names
from pytest_gpuperf.records.timing import TimingMode, TimingSource
from pytest_gpuperf.statistics.clock_model import ClockModel

if TYPE_CHECKING:
    from collections.abc import Iterable

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
    def shown(self) -> str:
        """`1a2b3c4`, with a plus if files differed from that commit; the run if no commit is known."""
        return self.commit[:7] + "+" * bool(self.dirty) if self.commit else self.run

    @property
    def key(self) -> tuple[str, str, str, str]:
        """GPU, run, test and label, of which a history has one line."""
        return self.gpu, self.run, self.test, self.label

    @property
    def file(self) -> str:
        """File of the lines of a GPU and suite, below the place of the history."""
        return f"{self.gpu}/{suite_of(self.test)}.jsonl"


_DECODER = msgspec.json.Decoder(HistoryLine)


def in_order(lines: Iterable[HistoryLine]) -> list[HistoryLine]:
    """Return lines by date, one of each key: the first."""
    by_key: dict[tuple[str, str, str, str], HistoryLine] = {}
    for line in lines:
        by_key.setdefault(line.key, line)
    return sorted(by_key.values(), key=lambda line: (line.date, line.key))


def encode_lines(lines: Iterable[HistoryLine]) -> bytes:
    """Return lines as a file of JSON."""
    return b"".join(msgspec.json.encode(line) + b"\n" for line in in_order(lines))


def decode_lines(data: bytes, file: str, shown: str) -> list[HistoryLine]:
    """Read a file of lines.

    Args:
        data: Content of the file.
        file: The file, below the place of the history.
        shown: Name of the file in an error.

    Raises:
        GpuperfError: A line is broken, of a newer version, impossible, or of another file.
    """
    texts = enumerate(data.split(b"\n"), 1)
    return [_decode(text, file, f"{shown}, line {at}") for at, text in texts if text.strip()]


def _decode(text: bytes, file: str, shown: str) -> HistoryLine:
    next_step = "remove the line, or type `git restore` for the file if it is committed"
    line = decode_versioned(text, _DECODER, schema=HISTORY_SCHEMA, shown=shown, next_step=next_step)
    refuse_unsafe_names(line.run, line.gpu, shown, next_step)
    try:
        own = line.file
    except GpuperfError as error:
        raise GpuperfError(f"{shown}: {error.found}", expected=error.expected, next_step=next_step) from None
    if own != file:
        raise GpuperfError(f"{shown} is of {own}", expected=file, next_step=next_step)
    return line
