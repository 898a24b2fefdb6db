"""JSON of `gpuperf history`, as types: `gpuperf schema` makes their schemas."""

from __future__ import annotations

from typing import Literal, TypedDict

from pytest_gpuperf.baseline.history.ranges import Status, SuspectName
from pytest_gpuperf.records import TimingMode, TimingSource


class End(TypedDict):
    """One end of a range of commits."""

    commit: str
    """Empty if it is not known."""
    dirty: bool | None
    """True if tracked files differed from the commit; None if it is not known."""
    run: str
    date: str
    """Start of the run: UTC, ISO 8601."""


class SuspectOfRange(TypedDict):
    """Part of the machine that changed in the same range."""

    name: SuspectName
    before: str
    after: str


class FoundChange(TypedDict):
    """Change of the time of one test."""

    test: str
    label: str
    mode: TimingMode
    source: TimingSource
    kind: Literal["step", "creep"]
    change_pct: float
    """Above 0 if it is slower."""
    low_pct: float
    """Lower end of the 95 % interval of `change_pct`."""
    high_pct: float
    status: Status
    """`slower`: open. `returned`: a later change led back to the old level. `accepted`: a run since is in the
    baseline."""
    note: str
    before: End
    """Last point of the old level of this test: its range may be wider than the shared one."""
    after: End
    """First point of the new level."""


class ChangedRange(TypedDict):
    """Range of commits in which times of one GPU model changed."""

    gpu: str
    before: End
    after: End
    commits: int
    """Number of commits after `before` up to `after`; 0 if git does not know them."""
    times: int
    """Number of times of this GPU model that were measured on both sides."""
    suspects: list[SuspectOfRange]
    other_cards: bool
    """True if other cards measured the new level than the old one."""
    found: list[FoundChange]


class HistoryChanges(TypedDict):
    """Changes found in a history: `gpuperf history check`."""

    order: Literal["commits", "dates"]
    why: str
    """Reason why the order is by dates; else empty."""
    series: int
    """Number of times searched."""
    points: int
    """Number of sessions of all times."""
    ranges: list[ChangedRange]


class HistoryTime(TypedDict):
    """One time of a history: `gpuperf history show`."""

    gpu: str
    test: str
    label: str
    mode: TimingMode
    source: TimingSource
    at_mhz: float
    """SM clock of the times, in MHz; 0 if they are as measured."""
    runs: int
    time_us: float
    """The newest."""
    commit: str
    """Commit of the newest time."""
    changes: int
    """Number of changes found."""
    newest_change_pct: float | None
    """None if no change was found."""
    status: Literal["slower", "faster", "returned", "accepted", ""]
    """That of the newest change."""


class HistorySession(TypedDict):
    """Time of one test in one run: `gpuperf history show TEST`."""

    gpu: str
    test: str
    label: str
    mode: TimingMode
    source: TimingSource
    commit: str
    dirty: bool | None
    commit_date: str
    run: str
    date: str
    card: str
    time_us: float
    """At `at_mhz`."""
    at_mhz: float
    """SM clock of the times, in MHz; 0 if they are as measured."""
    standard_error: float
    """Standard error of `time_us` within its session, as a part of it; 0 if unknown."""
    raw_us: float
    """The time as measured."""
    driver: str
    torch: str
    triton: str
