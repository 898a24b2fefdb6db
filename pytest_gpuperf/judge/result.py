"""Verdict on a test as plain data, for reports and the plugin."""

from __future__ import annotations

from enum import Enum

import msgspec

from pytest_gpuperf.judge.gate import TimeComparison
from pytest_gpuperf.records import TestRecord
from pytest_gpuperf.records.change import printable


class Status(str, Enum):
    """The verdict on a test, worst first."""

    INVALID = "invalid"
    """Could not be judged for a reason the user must fix: no kernel matched, an unknown metric, a time below
    what the GPU can reach."""
    WRONG = "wrong"
    """The output differs from the reference."""
    REGRESSED = "regressed"
    """Worse than the baseline, beyond noise and tolerance."""
    LIMIT = "limit"
    """Outside a limit of the test or of the baseline file."""
    INCONCLUSIVE = "inconclusive"
    """Too uncertain to call; fails only under `--gpuperf-strict`."""
    NEW = "new"
    """Without a baseline."""
    IMPROVED = "improved"
    """Faster than the baseline, beyond noise."""
    PASS = "pass"  # noqa: S105

    @property
    def fails(self) -> bool:
        """True if a test with this verdict fails."""
        return self in (Status.INVALID, Status.WRONG, Status.REGRESSED, Status.LIMIT)


class Hints(msgspec.Struct, frozen=True, gc=False):
    """Commands to type next, shown below a finding."""

    accept: str = ""
    """If a change is intended."""
    no_baseline: str = ""
    """To make a baseline."""
    again: str = ""
    """To confirm a time in a fresh process."""
    closer: str = ""
    """To have old and new code measured in turn."""
    more_sessions: str = ""
    """To make smaller changes visible."""


class Finding(msgspec.Struct, frozen=True, gc=False):
    """One reason for the verdict: a line, and lines below it."""

    status: Status
    line: str
    """Limit, actual value and baseline on one line."""
    label: str = ""
    details: tuple[str, ...] = ()


class Suspect(msgspec.Struct, frozen=True, gc=False):
    """A time outside of the screen that has not been settled."""

    label: str
    change_pct: float
    """Against the baseline; slower is positive."""


class TestVerdict(msgspec.Struct, frozen=True, gc=False):
    """The verdict on one test."""

    __test__ = False  # pytest: not a test class

    status: Status
    findings: tuple[Finding, ...] = ()
    """Reasons, the worst first; those of `Status.PASS` are remarks, such as a limit that could not be
    judged."""
    times: dict[str, TimeComparison] = {}
    """Time compared with its baseline, by label."""
    strict: bool = False
    """True if `inconclusive` fails the test."""
    suspects: tuple[Suspect, ...] = ()
    """Times to settle before the test is judged for good; none if it fails for another reason."""

    @property
    def fails(self) -> bool:
        """True if the test fails."""
        return self.fails_by(self.status)

    def fails_by(self, status: Status) -> bool:
        """Return True if a finding of this status fails the test."""
        return status.fails or (self.strict and status is Status.INCONCLUSIVE)

    def message(self) -> str:
        """Return the text of a failed test: a line for each finding, its details indented below."""
        lines: list[str] = []
        for finding in self.findings:
            if self.fails_by(finding.status):
                label = "" if finding.label in ("", "main") else f"{finding.label}: "
                first, *more = f"gpuperf: {label}{finding.line}".splitlines()
                lines.append(printable(first))
                lines.extend(f"    {printable(line)}" for line in (*more, *finding.details))
        return "\n".join(lines)


class TestResult(msgspec.Struct, frozen=True, gc=False):
    """Record of a test with its verdict."""

    __test__ = False  # pytest: not a test class

    record: TestRecord
    verdict: TestVerdict
    replayed: bool = False
