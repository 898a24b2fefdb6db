"""Result of a test, its record and the verdict, as plain data, for reports and the plugin."""

from __future__ import annotations

from enum import Enum
from typing import Literal

import msgspec

from pytest_gpuperf.records import TestRecord
from pytest_gpuperf.records.change import printable
from pytest_gpuperf.records.passes import SelectedTest
from pytest_gpuperf.statistics.decision import Decision, Outcome


class Status(str, Enum):
    """The verdict on a test, worst first."""

    INVALID = "invalid"
    """Could not be judged for a reason the user must fix: no kernel matched, an unknown metric, a part of the
    baseline that was not measured, a time below the reach of the GPU."""
    WRONG = "wrong"
    """The output differs from the reference."""
    REGRESSED = "regressed"
    """Worse than the baseline, beyond noise and tolerance."""
    LIMIT = "limit"
    """Outside a limit of the test or of the baseline file."""
    INCONCLUSIVE = "inconclusive"
    """Not decided; fails only under `--gpuperf-strict`."""
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


class Finding(msgspec.Struct, frozen=True, gc=False):
    """One reason for the verdict: a line, and lines below it."""

    status: Status
    line: str
    """Limit, actual value and baseline on one line."""
    label: str = ""
    details: tuple[str, ...] = ()
    """Evidence, the strongest first."""
    next_step: str = ""
    """Command to type next; empty for none."""
    drift: str = ""
    """What else than the code moved a time that is alike in turn: `driver 580 -> 590`."""
    doubt: bool = False
    """True for a reason to warn of a test that passes: a doubted time, or values that it no longer has."""

    @property
    def more(self) -> tuple[str, ...]:
        """Lines below the first: the evidence and the next step."""
        return (*self.details, *filter(None, [self.next_step]))


class TimeComparison(msgspec.Struct, frozen=True, gc=False):
    """Time compared with its baseline."""

    decision: Decision
    actual_us: float
    """New time at `at_mhz`, like `baseline_us`."""
    baseline_us: float
    """Geometric mean over the sessions, or the time of the old code."""
    at_mhz: float = 0.0
    """SM clock that both were brought to; 0 if they are compared as measured."""
    actual_mhz: float = 0.0
    """Mean SM clock of the new time; 0 if unknown."""
    baseline_mhz: float = 0.0
    """Mean SM clock of the sessions; 0 if unknown."""
    how: Literal["screen", "in turn", "fresh"] = "screen"
    """Way of the comparison, so that `decision.replicates` counts sessions, restarts or processes."""
    stored: int = 0
    """Number of stored sessions, of which only those of the same card may count; 0 in turn."""
    against: str = ""
    """Older code of a comparison in turn, as the user named it or by its commit."""
    why: tuple[str, ...] = ()
    """Facts that decided, besides the restarts or the screen."""
    too_noisy: bool = False
    """True if its own error is larger than the screen: it does not pass by that."""
    suspect: bool = False
    """True if it has to be settled."""

    @property
    def outcome(self) -> Outcome:
        """Outcome of the comparison."""
        return self.decision.outcome


class TestResult(msgspec.Struct, frozen=True, gc=False, tag=True):
    """The record of a test and the verdict on it."""

    __test__ = False  # pytest: not a test class

    record: TestRecord
    status: Status
    """The verdict."""
    findings: tuple[Finding, ...] = ()
    """Reasons, the worst first; those of `Status.PASS` are remarks, such as a limit that could not be
    judged."""
    times: dict[str, TimeComparison] = {}
    """Time compared with its baseline, by label."""
    strict: bool = False
    """True if `inconclusive` fails the test."""
    suspects: tuple[str, ...] = ()
    """Labels of times outside the screen, to settle; none if the test fails otherwise."""
    replayed: bool = False
    unfinished: SelectedTest | None = None
    """The test if something of it is left to do when all tests have ended; else None."""

    @property
    def fails(self) -> bool:
        """True if the test fails."""
        return self.fails_by(self.status)

    @property
    def drift(self) -> str:
        """What else than the code moved a time, and the command for it; empty if another verdict is worse."""
        found = (f"{one.drift}: {one.next_step.partition(': ')[2]}" for one in self.findings if one.drift)
        return next(found, "") if self.status is Status.PASS else ""

    @property
    def loss_pct(self) -> float:
        """Largest slowdown of a time that does not pass, in %; 0 if none is slower."""
        moved = (time.decision for time in self.times.values() if time.outcome is not Outcome.PASS)
        return max((decision.change_pct for decision in moved), default=0.0)

    def fails_by(self, status: Status) -> bool:
        """Return True if a finding of this status fails the test."""
        return status.fails or (self.strict and status is Status.INCONCLUSIVE)

    def show(self, status: Status) -> str:
        """Return the name of a status of this test: `inconclusive (failed)` under `--gpuperf-strict`."""
        return f"{status.value} (failed)" if self.fails_by(status) and not status.fails else status.value

    @property
    def warning(self) -> str:
        """Reason to warn of a test that does not fail: not decided, in doubt, or drifted; else empty."""
        if self.fails:
            return ""
        undecided = Status.INCONCLUSIVE
        drifts = self.status is undecided or bool(self.drift)
        found = (
            one for one in self.findings if one.doubt or one.status is undecided or (one.drift and drifts)
        )
        return "; ".join(printable(_labelled(finding)) for finding in found)

    def message(self) -> str:
        """Return the text of a failed test: a line for each finding, details of failures below it."""
        lines: list[str] = []
        for finding in self.findings:
            fails = self.fails_by(finding.status)
            if fails or (self.fails and finding.status is Status.INCONCLUSIVE):
                first, *more = f"gpuperf: {_labelled(finding)}".splitlines()
                lines.append(printable(first))
                lines.extend(f"    {printable(line)}" for line in (*more, *(finding.more if fails else ())))
        steps = {f"    {printable(one.next_step)}" for one in self.findings if one.next_step}
        # Several findings may have one next step.
        return "\n".join(line for at, line in enumerate(lines) if line not in {*lines[at + 1 :]} & steps)


def _labelled(finding: Finding) -> str:
    line = f"inconclusive: {finding.line}" if finding.status is Status.INCONCLUSIVE else finding.line
    return line if finding.label in ("", "main") else f"{finding.label}: {line}"
