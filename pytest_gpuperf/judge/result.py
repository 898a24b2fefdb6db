"""What the verdict says of a test: read by reports and by the plugin."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_gpuperf.judge.gate import TimeComparison
    from pytest_gpuperf.records import MetricValue, TestRecord

_COMMAND = re.compile(r"(?<!\S):{2,}|##\[")


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
    UNBASELINED = "unbaselined"
    """Nothing to compare with yet."""
    IMPROVED = "improved"
    """Faster than the baseline, beyond noise."""
    PASS = "pass"  # noqa: S105

    @property
    def fails(self) -> bool:
        """Whether a test with this verdict fails."""
        return self in (Status.INVALID, Status.WRONG, Status.REGRESSED, Status.LIMIT)


@dataclass(frozen=True)
class Change:
    """One value beside its baseline."""

    metric: str
    baseline: MetricValue
    actual: MetricValue
    change_pct: float | None
    """Relative change in per cent; None where the values are words or the baseline is 0."""
    worse: bool | None
    """None where neither direction is better."""

    def __str__(self) -> str:
        """`registers_per_thread 32 -> 40 (+25.0 %)`."""
        change = ""
        if self.change_pct is not None:
            # A count of work may have moved by a thousandth of a per cent, and is shown.
            form = "+.1f" if abs(self.change_pct) >= 0.05 else "+.1g"
            change = f" ({self.change_pct:{form}} %)"
        baseline, actual = show_pair(self.baseline, self.actual)
        return f"{self.metric} {baseline} -> {actual}{change}"


def printable(text: str) -> str:
    """`text` on one line, without control characters and without commands for GitHub.

    Names and messages come from pull requests and files. GitHub's runner takes a line that starts with `::`,
    spaces before it left out, for a workflow command, and the older `##[` anywhere in a line.
    """
    if not text.isprintable():
        text = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)
    return _COMMAND.sub(lambda match: " ".join(match[0]), text)


def show_value(value: MetricValue, digits: int = 3) -> str:
    """A value with significant digits: `5.30`, `77.1`, `16777216`; whole numbers and words as they are."""
    if isinstance(value, str):
        return value
    if not math.isfinite(value) or abs(value) >= 1e15 or 0 < abs(value) < 1e-4:
        return f"{value:.{digits}g}"
    if value == int(value):
        return str(int(value))
    return f"{value:.{max(0, digits - 1 - math.floor(math.log10(abs(value))))}f}"


def show_pair(one: MetricValue, other: MetricValue) -> tuple[str, str]:
    """Two values, numbers with as many digits as it takes to tell them apart."""
    if isinstance(one, str) or isinstance(other, str):
        return show_value(one), show_value(other)
    digits = 3
    while one != other and digits < 17 and float(show_value(one, digits)) == float(show_value(other, digits)):
        digits += 1
    return show_value(one, digits), show_value(other, digits)


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
