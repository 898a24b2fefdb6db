"""The comment on a pull request, in Markdown.

Runs come from code that nobody has reviewed. So each text from a run is in a code span or a code block: there
GitHub makes no link, no mention, no image and no HTML. Only numbers and words of this package stand outside.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_gpuperf.features.github.step_summary import counted, cut, folded, within
from pytest_gpuperf.judge.result import Status
from pytest_gpuperf.records.call import with_label
from pytest_gpuperf.records.change import printable
from pytest_gpuperf.report.forms.as_markdown import MARKS, code
from pytest_gpuperf.report.number_format import count, listed
from pytest_gpuperf.report.overwrite_check import COMMENT as TAG
from pytest_gpuperf.report.rows import (
    SEVERITY,
    TONES,
    build_rows,
    failures,
    header_lines,
    split_names,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_gpuperf.judge.result import TestResult
    from pytest_gpuperf.records import Run
    from pytest_gpuperf.report.rows import Row

MOST_BYTES = 65_536
"""GitHub refuses a comment with more characters; no text has more characters than bytes."""
CHANGES_BYTES = 26_000
"""Room for the table of the tests that did not pass."""
MESSAGES_BYTES = 18_000
"""Room for the failure messages."""
MESSAGE_CHARACTERS = 2_000
"""Maximum length of one failure message."""
TEXT_CHARACTERS = 200
"""Maximum length of a name or a remark."""
MODELS = 6
"""Maximum number of columns of the table: one for each run."""
NAMES_SHOWN = 10
"""Maximum number of tests in a remark."""
REMARKS_BYTES = 8_000
"""Room for the remarks."""


@dataclass(frozen=True)
class JudgedRun:
    """A run of one GPU with its verdicts."""

    run: Run
    results: Sequence[TestResult]
    missing: Sequence[str] = ()
    """Node ids with a baseline on this GPU that the run has not measured."""
    known: bool = True
    """False if no test of the run has a baseline on this GPU."""

    @property
    def gpu(self) -> str:
        """Name of the GPU as code."""
        gpu = self.run.environment.gpu
        return _code(gpu.name or gpu.slug)

    @property
    def rows(self) -> Iterator[tuple[TestResult, str, Row]]:
        """Each measurement of each test, with its label and row; without labels the test itself."""
        for result, rows in zip(self.results, build_rows(self.results), strict=True):
            for label, row in zip(list(result.record.measurements) or ["main"], rows, strict=True):
                yield result, label, row


@dataclass(frozen=True)
class RequestFacts:
    """Facts that do not come from the runs."""

    marker: str = "gpuperf"
    """Name in the hidden first line, by which the comment is found and updated."""
    report_url: str = ""
    """Address of the HTML report; empty for none."""
    job_url: str = ""
    """Address of the workflow run that measured."""
    conclusion: str = ""
    """Its result, such as `success`; empty if unknown."""


def request_comment(judged: Sequence[JudgedRun], facts: RequestFacts, notes: Sequence[str] = ()) -> str:
    """Return the changed tests of all GPUs, then failure messages and all times, folded.

    Args:
        judged: At least one run.
        facts: Facts about the jobs.
        notes: Remarks about the runs.
    """
    results = [result for one in judged for result in one.results]
    fails = any(result.status.fails for result in results)
    fails = fails or facts.conclusion not in ("", "success")
    compared = any(result.times for result in results)
    undecided = any(result.status is Status.INCONCLUSIVE for result in results)
    whole = all(one.run.complete and one.results and not one.missing for one in judged)
    mark = MARKS["bad" if fails else "pass" if compared and whole and not undecided else "unsure"]
    said = counted(results) or "nothing was judged"
    untimed = ", no time was compared" if results and not compared else ""
    head = [_marker(facts), f"## {mark}gpuperf: {said}{untimed}", _origin(facts), *_changes(judged[:MODELS])]
    if remarks := [f"- {remark}" for remark in _remarks(judged, notes)]:
        kept = within(remarks, REMARKS_BYTES)
        head += ["\n".join(kept), *_left_out(len(remarks) - len(kept), "remark")]
    blocks = [
        f"{_code(result.record.nodeid)} on {one.gpu}\n\n"
        f"{_code_block(cut(result.message(), MESSAGE_CHARACTERS))}"
        for one in judged
        for result in failures(one.results)
    ]
    if blocks:
        kept = within(blocks, MESSAGES_BYTES)
        left_out = _left_out(len(blocks) - len(kept), "message")
        head.append(folded(f"{len(blocks):,} failed", [*kept, *left_out]))
    left = MOST_BYTES - len("\n\n".join(head).encode())
    return "\n\n".join([*head, *_all_times(judged[:MODELS], left)]) + "\n"


def refused_comment(error: str, facts: RequestFacts) -> str:
    """Return the comment for runs that cannot be judged.

    Args:
        error: The reason.
        facts: Facts about the jobs.
    """
    why = _code_block(cut(error, MESSAGE_CHARACTERS))
    return "\n\n".join([_marker(facts), "## ❔ gpuperf: nothing was judged", _origin(facts), why]) + "\n"


def _marker(facts: RequestFacts) -> str:
    return f"{TAG}{facts.marker} -->"


def _origin(facts: RequestFacts) -> str:
    job = f"[measuring job]({facts.job_url})" if facts.job_url else "measuring job"
    ended = f", which ended with **{facts.conclusion}**" if facts.conclusion else ""
    report = f"\n[Open the report]({facts.report_url}), an artifact of the judging job."
    return (
        "Judged without a GPU, by the baselines of the base branch and the limits in "
        f"this pull request's tests.\nAssertions count only in the {job}{ended}."
        f"{report if facts.report_url else ''}"
    )


def _changes(judged: Sequence[JudgedRun]) -> list[str]:
    """Return the table of the tests that changed on any GPU, the worst first."""
    cells: dict[str, dict[int, Row]] = {}
    ranks: dict[str, tuple[int, float]] = {}
    for place, one in enumerate(judged):
        # Without any baseline, a row for each new test would hide the changes.
        unchanged = (Status.PASS,) if one.known else (Status.PASS, Status.NEW)
        for result, label, row in one.rows:
            name = with_label(result.record.nodeid, label)
            cells.setdefault(name, {})[place] = row
            if row.status not in unchanged:
                time = result.times.get(label)
                rank = SEVERITY[row.status], -time.decision.change_pct if time is not None else 0.0
                ranks[name] = min(ranks.get(name, rank), rank)
    if not ranks:
        return ["No test changed."] if cells else []
    worst = sorted(ranks, key=ranks.__getitem__)
    _, names = split_names(worst)
    lines = []
    for key, name in zip(worst, names, strict=True):
        verdicts = [_cell(cells[key].get(place)) for place in range(len(judged))]
        lines.append(f"| {' | '.join([_code(name, cell=True), *verdicts])} |")
    kept = within(lines, CHANGES_BYTES)
    titles = [one.gpu.replace("|", "\\|") for one in judged]
    head = [f"| test | {' | '.join(titles)} |", f"| --- {'| --- ' * len(titles)}|"]
    return ["\n".join([*head, *kept]), *_left_out(len(lines) - len(kept), "changed test")]


def _cell(row: Row | None) -> str:
    if row is None:
        return ""
    change = row.time if row.status is Status.NEW else row.change
    return f"{_verdict(row)} {change}".strip()


def _remarks(judged: Sequence[JudgedRun], notes: Sequence[str]) -> list[str]:
    remarks = [*map(_code, notes), *_left_out(len(judged) - MODELS, "GPU")]
    for one in judged[:MODELS]:
        if one.results and not one.known:
            remarks.append(f"no test has a baseline on {one.gpu}")
        # By the request's own baselines they were no suspects to settle.
        suspects = [
            (time.decision.change_pct, result)
            for result in one.results
            for time in result.times.values()
            if time.suspect
        ]
        slower = sorted((-change, result.record.nodeid) for change, result in suspects if change > 0)
        if slower:
            names = listed([f"{_code(nodeid)} +{-change:.1f} %" for change, nodeid in slower], NAMES_SHOWN)
            what = count(len(slower), "slowdown")
            remarks.append(f"{what} that the baselines of this pull request accept on {one.gpu}: {names}")
        if one.missing:
            missing = count(len(one.missing), "test")
            names = listed(list(map(_code, one.missing)), NAMES_SHOWN)
            remarks.append(f"{missing} with a baseline not measured on {one.gpu}: {names}")
        if tolerant := sum(result.record.tolerance_pct > 0 for result in one.results):
            remarks.append(f"{count(tolerant, 'test')} on {one.gpu} with a tolerance in the test's marker")
    return remarks


def _all_times(judged: Sequence[JudgedRun], room: int) -> list[str]:
    """Return the times of all tests that fit into `room` bytes, and the number of the others."""
    room -= len(folded("", _left_out(10**9, "time")).encode()) + 100
    kept: list[str] = []
    left = total = 0
    for one in judged:
        above = "\n".join(map(_code, header_lines(one.run.environment, None)))
        head = f"{above}\n\n| test | time | change | verdict |\n| --- | ---: | ---: | --- |"
        _, names = split_names([with_label(result.record.nodeid, label) for result, label, _ in one.rows])
        lines = [
            f"| {_code(name, cell=True)} | {row.time} | {row.change} | {_verdict(row)} |"
            for name, (_, _, row) in zip(names, one.rows, strict=True)
        ]
        shown = within(lines, room - len(head.encode()) - 4)
        room -= len("\n\n".join([head, *shown]).encode()) + 4
        total += len(lines)
        left += len(lines) - len(shown)
        if shown:
            kept.append("\n".join([head, *shown]))
    if not kept:
        return _left_out(total, "time")
    return [folded(f"All {count(total, 'time')}", [*kept, *_left_out(left, "time")])]


def _verdict(row: Row) -> str:
    return f"{MARKS.get(TONES[row.status], '')}{row.status.value}"


def _left_out(number: int, what: str) -> list[str]:
    return [f"Left out for lack of room: {count(number, what)}."] if number > 0 else []


def _code(text: str, *, cell: bool = False) -> str:
    return code(cut(text, TEXT_CHARACTERS), cell=cell)


def _code_block(text: str) -> str:
    """Return lines as a code block."""
    lines = [printable(line) for line in text.splitlines()]
    fence = "`" * (1 + max(map(len, re.findall("`{2,}", "\n".join(lines))), default=2))
    return "\n".join([f"{fence}text", *lines, fence])
