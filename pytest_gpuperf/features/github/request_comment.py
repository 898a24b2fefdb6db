"""The comment on a pull request, in Markdown.

Runs come from code that nobody has reviewed. So each text from a run is in a code span or a code block: there
GitHub makes no link, no mention, no image and no HTML. Only numbers and words of this package stand outside.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_gpuperf.features.github.step_summary import within
from pytest_gpuperf.judge.result import Status
from pytest_gpuperf.report.forms.as_markdown import MARKS, code, code_block
from pytest_gpuperf.report.own_files import COMMENT as TAG
from pytest_gpuperf.report.rows import (
    SEVERITY,
    TONES,
    build_rows,
    counts_by_status,
    failure_message,
    failures,
    header_lines,
    split_names,
)
from pytest_gpuperf.report.show import count

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

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
    counts = counts_by_status([result for one in judged for result in one.results])
    said = ", ".join(f"{number:,} {status.value}" for status, number in counts.items())
    fails = any(status.fails for status in counts) or facts.conclusion not in ("", "success")
    mark = MARKS["bad" if fails else "pass" if said else "unsure"]
    head = [
        _marker(facts),
        f"## {mark}gpuperf: {said or 'nothing was judged'}",
        _origin(facts),
        *_changes(judged[:MODELS]),
    ]
    if remarks := [f"- {remark}" for remark in _remarks(judged, notes)]:
        kept = within(remarks, _sizes(remarks), REMARKS_BYTES)
        head += ["\n".join(kept), *_left_out(len(remarks) - len(kept), "remark")]
    head += _messages(judged)
    left = MOST_BYTES - len("\n\n".join(head).encode())
    return "\n\n".join([*head, *_all_tests(judged[:MODELS], left)]) + "\n"


def refused_comment(error: str, facts: RequestFacts) -> str:
    """Return the comment for runs that cannot be judged.

    Args:
        error: The reason.
        facts: Facts about the jobs.
    """
    why = code_block(_cut(error, MESSAGE_CHARACTERS))
    return "\n\n".join([_marker(facts), "## ❔ gpuperf: nothing was judged", _origin(facts), why]) + "\n"


def _marker(facts: RequestFacts) -> str:
    return f"{TAG}{facts.marker} -->"


def _origin(facts: RequestFacts) -> str:
    job = f"[measuring job]({facts.job_url})" if facts.job_url else "measuring job"
    ended = f", which ended with **{facts.conclusion}**" if facts.conclusion else ""
    report = (
        f"\n[Open the report]({facts.report_url}), an artifact of the judging job."
        if facts.report_url
        else ""
    )
    return (
        "Judged without a GPU, by the baselines of the base branch and the limits in "
        f"this pull request's tests.\nAssertions count only in the {job}{ended}.{report}"
    )


def _changes(judged: Sequence[JudgedRun]) -> list[str]:
    cells: dict[str, dict[int, Row]] = {}
    losses: dict[str, float] = {}
    for place, one in enumerate(judged):
        for result, rows in zip(one.results, build_rows(one.results), strict=True):
            labels = list(result.record.measurements) or ["main"]
            for label, row in zip(labels, rows, strict=True):
                name = result.record.nodeid
                name = name if label == "main" else f"{name} ({label})"
                cells.setdefault(name, {})[place] = row
                if (time := result.verdict.times.get(label)) is not None:
                    losses[name] = max(losses.get(name, 0.0), time.decision.change_pct)
    unchanged = [(Status.PASS, Status.NEW) if _is_all_new(one) else (Status.PASS,) for one in judged]
    changed = {
        name: rows
        for name, rows in cells.items()
        if any(row.status not in unchanged[place] for place, row in rows.items())
    }
    if not changed:
        return ["No test changed."] if cells else []
    worst = sorted(
        changed,
        key=lambda name: (
            min(SEVERITY[row.status] for row in changed[name].values()),
            -losses.get(name, 0.0),
        ),
    )
    _, names = split_names(worst)
    lines = []
    for key, name in zip(worst, names, strict=True):
        verdicts = [_cell(changed[key].get(place)) for place in range(len(judged))]
        lines.append(f"| {' | '.join([_code(name, cell=True), *verdicts])} |")
    kept = within(lines, _sizes(lines), CHANGES_BYTES)
    gpus = [one.run.environment.gpu for one in judged]
    titles = [_code(gpu.name or gpu.slug, cell=True) for gpu in gpus]
    head = [f"| test | {' | '.join(titles)} |", f"| --- {'| --- ' * len(titles)}|"]
    return ["\n".join([*head, *kept]), *_left_out(len(lines) - len(kept), "changed test")]


def _is_all_new(one: JudgedRun) -> bool:
    """Return True without any baseline for the GPU: then a row for each test would hide the changes."""
    return all(result.verdict.status is Status.NEW for result in one.results)


def _cell(row: Row | None) -> str:
    if row is None:
        return ""
    change = row.time if row.status is Status.NEW else row.change
    return f"{MARKS.get(TONES[row.status], '')}{row.status.value} {change}".strip()


def _remarks(judged: Sequence[JudgedRun], notes: Sequence[str]) -> list[str]:
    remarks = [*map(_code, notes), *_left_out(len(judged) - MODELS, "GPU")]
    for one in judged[:MODELS]:
        gpu = _code(one.run.environment.gpu.name)
        tolerant = sum(result.record.tolerance_pct > 0 for result in one.results)
        if one.results and _is_all_new(one):
            remarks.append(f"no test has a baseline on {gpu}")
        remarks += _accepted(one, gpu)
        if one.missing:
            names = ", ".join(map(_code, one.missing[:NAMES_SHOWN]))
            more = len(one.missing) - NAMES_SHOWN
            names += f" and {more:,} more" if more > 0 else ""
            missing = count(len(one.missing), "test")
            remarks.append(f"{missing} with a baseline not measured on {gpu}: {names}")
        if tolerant:
            remarks.append(f"{count(tolerant, 'test')} on {gpu} with a tolerance in the test's marker")
    return remarks


def _accepted(one: JudgedRun, gpu: str) -> list[str]:
    """Name the slowdowns that the request accepts: by its own baselines they were no suspects to settle."""
    found = [
        (suspect.change_pct, result.record.nodeid)
        for result in one.results
        for suspect in result.verdict.suspects
        if suspect.change_pct > 0
    ]
    if not found:
        return []
    ranked = sorted(found, reverse=True)
    names = ", ".join(f"{_code(nodeid)} +{change:.1f} %" for change, nodeid in ranked[:NAMES_SHOWN])
    more = f" and {len(ranked) - NAMES_SHOWN:,} more" if len(ranked) > NAMES_SHOWN else ""
    what = "slowdown that the baselines of this pull request accept"
    return [f"{count(len(ranked), what, what.replace('down', 'downs', 1))} on {gpu}: {names}{more}"]


def _messages(judged: Sequence[JudgedRun]) -> list[str]:
    blocks = []
    for one in judged:
        gpu = _code(one.run.environment.gpu.name)
        for result in failures(one.results):
            message = code_block(_cut(failure_message(result), MESSAGE_CHARACTERS))
            blocks.append(f"{_code(result.record.nodeid)} on {gpu}\n\n{message}")
    kept = within(blocks, _sizes(blocks), MESSAGES_BYTES)
    if not blocks:
        return []
    left_out = _left_out(len(blocks) - len(kept), "message")
    return [_folded(f"{len(blocks):,} failed", [*kept, *left_out])]


def _all_tests(judged: Sequence[JudgedRun], room: int) -> list[str]:
    """Return the times of all tests that fit into `room` bytes, and the number of the others."""
    room -= len(_folded("", _left_out(10**9, "test")).encode()) + 100
    kept: list[str] = []
    left = total = 0
    for one in judged:
        _, names = split_names([result.record.nodeid for result in one.results])
        above = "\n".join(map(_code, header_lines(one.run.environment, None)))
        head = f"{above}\n\n| test | time | change | verdict |\n| --- | ---: | ---: | --- |"
        groups = zip(names, one.results, build_rows(one.results), strict=True)
        lines = [_line(name, result, rows) for name, result, rows in groups]
        room -= len(head.encode()) + 4
        shown = within(lines, _sizes(lines), room)
        room -= sum(_sizes(shown))
        total += len(lines)
        left += len(lines) - len(shown)
        if shown:
            kept.append("\n".join([head, *shown]))
    if not kept:
        return _left_out(total, "test")
    return [_folded(f"All {count(total, 'time')}", [*kept, *_left_out(left, "test")])]


def _line(name: str, result: TestResult, rows: Sequence[Row]) -> str:
    labels = list(result.record.measurements) or ["main"]
    lines = []
    for label, row in zip(labels, rows, strict=True):
        shown = _code(name if label == "main" else f"{name} ({label})", cell=True)
        verdict = f"{MARKS.get(TONES[row.status], '')}{row.status.value}"
        lines.append(f"| {shown} | {row.time} | {row.change} | {verdict} |")
    return "\n".join(lines)


def _folded(title: str, parts: Sequence[str]) -> str:
    return "\n\n".join([f"<details><summary>{title}</summary>", *parts, "</details>"])


def _left_out(number: int, what: str) -> list[str]:
    return [f"Left out for lack of room: {count(number, what)}."] if number > 0 else []


def _sizes(lines: Iterable[str]) -> list[int]:
    return [len(line.encode()) + 2 for line in lines]


def _code(text: str, *, cell: bool = False) -> str:
    return code(_cut(text, TEXT_CHARACTERS), cell=cell)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}…"
