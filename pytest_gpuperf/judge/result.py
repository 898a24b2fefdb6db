"""What the verdict says of a test: read by reports and by the plugin."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from pytest_gpuperf.records.change import printable

if TYPE_CHECKING:
    from pytest_gpuperf.judge.gate import TimeComparison
    from pytest_gpuperf.records import TestRecord
    from pytest_gpuperf.records.change import Change


class Status(str, Enum):
    """The verdict on a test, worst first."""

    INVALID = "invalid"
    """Could not be judged for a reason the user must mend: no kernel matched, unknown metric."""
    WRONG = "wrong"
    """The output differs from the reference."""
    REGRESSED = "regressed"
    """Worse than the baseline, beyond noise and tolerance."""
    LIMIT = "limit"
    """Outside a limit of the test or of the baseline file."""
    INCONCLUSIVE = "inconclusive"
    """Too uncertain to be called; fails only under `--gpuperf-strict`."""
    NEW = "new"
    """Nothing to compare with yet."""
    IMPROVED = "improved"
    """Faster than the baseline, beyond noise."""
    PASS = "pass"  # noqa: S105

    @property
    def fails(self) -> bool:
        """Whether a test with this verdict fails."""
        return self in (Status.INVALID, Status.WRONG, Status.REGRESSED, Status.LIMIT)


@dataclass(frozen=True)
class Hints:
    """Commands to type next, shown below a finding."""

    accept: str = ""
    """If a change is intended."""
    accept_pin: str = ""
    """If a change since the pinned sessions is intended."""
    no_baseline: str = ""
    """To make a baseline."""
    closer: str = ""
    """To have old and new code measured in turn."""
    more_sessions: str = ""
    """To make smaller changes visible."""


@dataclass(frozen=True)
class Finding:
    """One thing that the verdict has to say: a line, and lines below it."""

    status: Status
    line: str
    """States limit, actual and baseline; fits on one line."""
    label: str = ""
    details: tuple[str, ...] = ()


@dataclass(frozen=True)
class TestVerdict:
    """The verdict on one test."""

    __test__ = False  # pytest: not a test class

    status: Status
    findings: tuple[Finding, ...] = ()
    """Why, the worst first; those of `Status.PASS` are remarks, such as a limit that could not be judged."""
    times: dict[str, TimeComparison] = field(default_factory=dict)
    """By label: the time beside its baseline."""
    counter_changes: dict[str, tuple[Change, ...]] = field(default_factory=dict)
    """By label: counters that moved beyond their tolerance, the largest mover first."""
    strict: bool = False
    """Whether `inconclusive` fails the test."""

    @property
    def fails(self) -> bool:
        """Whether the test fails."""
        return self.fails_by(self.status)

    def fails_by(self, status: Status) -> bool:
        """Whether a finding of this status fails the test."""
        return status.fails or (self.strict and status is Status.INCONCLUSIVE)

    def message(self) -> str:
        """What a failed test shows: one line a finding, its details indented below, each `printable`."""
        lines: list[str] = []
        for finding in self.findings:
            if self.fails_by(finding.status):
                label = "" if finding.label in ("", "main") else f"{finding.label}: "
                first, *more = f"gpuperf: {label}{finding.line}".splitlines()
                lines.append(printable(first))
                lines.extend(f"    {printable(line)}" for line in (*more, *finding.details))
        return "\n".join(lines)


@dataclass(frozen=True)
class TestResult:
    """A test's record with its verdict, as reports take it."""

    __test__ = False  # pytest: not a test class

    record: TestRecord
    verdict: TestVerdict
    replayed: bool = False
