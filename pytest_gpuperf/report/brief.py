"""The short form of failures and of the summary, `--gpuperf-brief`: at most ten lines each."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_gpuperf.records.change import printable
from pytest_gpuperf.report.notices import undecided
from pytest_gpuperf.report.number_format import count
from pytest_gpuperf.report.rows import build_rows, counts_by_status, failures, header_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_gpuperf.report.rows import Summary

MOST_LINES = 10
MOST_CHARACTERS = 300
"""Characters of a line; the demangled name of a kernel can have thousands."""
TESTS_SHOWN = 5
"""Maximum number of failed tests in the summary."""
_NEXT_STEP = re.compile(r"\s*to (look closer|find the cause|see smaller changes)\b")
_IF_INTENDED = re.compile(r"\s*if this is intended\b")


def shortened(message: str, place: str = "") -> str:
    """Return the lines of a failure that matter most, at most ten.

    The findings come first, then the next step to look closer, then the details in their order. How to accept
    a change is left out before anything else.

    Args:
        message: The whole message; details are indented.
        place: File and line of the failure; shown at the end.
    """
    lines = [line for line in message.splitlines() if line.strip()]
    end = [f"at {place}"] if place else []
    room = MOST_LINES - len(end)
    left_out = 0
    if len(lines) > room:
        ranked = sorted(range(len(lines)), key=lambda index: (_rank(lines[index], index), index))
        kept = sorted(ranked[: room - 1])
        left_out = len(lines) - len(kept)
        lines = [lines[index] for index in kept]
    more = [f"… {count(left_out, 'more line')} without --gpuperf-brief"] if left_out else []
    return "\n".join([*map(_cut, lines), *more, *map(_cut, end)])


def brief_lines(summary: Summary) -> list[str]:
    """Return the summary of a run, at most ten lines; empty without results."""
    results = summary.results
    if not results:
        return []
    failed = failures(results)
    counts = ", ".join(f"{number:,} {status.value}" for status, number in counts_by_status(results).items())
    source = "; ".join(header_lines(summary.environment, summary.replayed_from))
    lines = [source, f"{len(failed):,} of {count(len(results), 'judged test')} failed: {counts}"]
    for result in failed[:TESTS_SHOWN]:
        change = next((row.change for row in build_rows([result])[0] if row.change), "")
        shown = [result.status.value, result.record.nodeid, f"({change})" if change else ""]
        lines.append("  " + printable(" ".join(filter(None, shown))))
    if len(failed) > TESTS_SHOWN:
        lines.append(f"  … {len(failed) - TESTS_SHOWN:,} more failed")
    lines += _notices([*summary.notices, *undecided(results)], MOST_LINES - len(lines))
    return [*map(_cut, lines)]


def _notices(notices: Sequence[str], room: int) -> list[str]:
    """Return the first lines of errors, then of other notices, as many as there is room for."""
    first = [f"gpuperf: {notice.splitlines()[0]}" for notice in notices if notice.strip()]
    ranked = sorted(first, key=lambda line: not line.startswith("gpuperf: error"))
    if len(ranked) <= room:
        return ranked
    return [*ranked[: room - 1], f"… {count(len(ranked) - room + 1, 'more notice')} without --gpuperf-brief"]


def _rank(line: str, index: int) -> int:
    if _NEXT_STEP.match(line):
        return 1
    if _IF_INTENDED.match(line):
        return 3
    # pytest's own explanation of an assertion is not indented either.
    return 0 if index == 0 or line.startswith("gpuperf:") else 2


def _cut(line: str) -> str:
    text = line.rstrip()
    return text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS - 1]}…"
