"""Two values of one metric and how they differ; values and names as text for a terminal or a CI log."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_gpuperf.errors import without_control

if TYPE_CHECKING:
    from pytest_gpuperf.records.run import MetricValue

_COMMAND = re.compile(r"(?<!\S):{2,}|##\[")
_LINE_COMMAND = re.compile(r"^\s*:{2,}|##\[", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Change:
    """One value compared with its baseline."""

    metric: str
    baseline: MetricValue
    actual: MetricValue
    change_pct: float | None
    """Relative change in %; None if the values are words or the baseline is 0."""
    worse: bool | None
    """None if neither direction is better."""

    def __str__(self) -> str:
        """Return `registers_per_thread 32 -> 40 (+25.0 %)`."""
        change = ""
        if self.change_pct is not None:
            # A count of work that moved by 0.001 % is shown.
            tiny = 0 < abs(self.change_pct) < 0.05
            change = f" ({f'{self.change_pct:+.1g}' if tiny else show_signed(self.change_pct)} %)"
        baseline, actual = show_pair(self.baseline, self.actual)
        return f"{self.metric} {baseline} -> {actual}{change}"


def printable(text: str) -> str:
    """Return `text` on one line, without control characters and without commands for GitHub.

    Names and messages come from pull requests and files. GitHub's runner executes a line that
    starts with `::`, spaces left out, as a workflow command, and the older `##[` anywhere in a line.
    """
    return _COMMAND.sub(lambda match: " ".join(match[0]), without_control(text))


def printable_lines(text: str) -> str:
    """Return text as `printable` does, but with its lines: data that goes to a log."""
    return _LINE_COMMAND.sub(lambda match: " ".join(match[0]), without_control(text, "\n\t"))


def show_value(value: MetricValue, digits: int = 3) -> str:
    """Return a value with few digits, as `5.30` or `77.1`; whole numbers and words as they are."""
    if isinstance(value, str):
        return value
    if not math.isfinite(value) or abs(value) >= 1e15 or 0 < abs(value) < 1e-4:
        return f"{value:.{digits}g}"
    if value == int(value):
        return str(int(value))
    return f"{value:.{max(0, digits - 1 - math.floor(math.log10(abs(value))))}f}"


def show_signed(value: float, digits: int = 1) -> str:
    """Return a number with its sign and so many decimals: `+2.1`, `-0.3`; `0.0` if it rounds to 0."""
    text = f"{value:+.{digits}f}"
    return text if float(text) else text[1:]


def show_pair(one: MetricValue, other: MetricValue) -> tuple[str, str]:
    """Return two values, numbers with enough digits to tell them apart."""
    if isinstance(one, str) or isinstance(other, str):
        return show_value(one), show_value(other)
    digits = 3
    while one != other and digits < 17 and float(show_value(one, digits)) == float(show_value(other, digits)):
        digits += 1
    return show_value(one, digits), show_value(other, digits)
