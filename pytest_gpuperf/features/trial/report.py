"""The result of `gpuperf try` as a table, a row a case."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from pytest_gpuperf.report.number_format import count, show_time, three_digits
from pytest_gpuperf.report.table import Column, Report, Table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_gpuperf.features.trial.record import CaseResult, Interval, TrialResult
    from pytest_gpuperf.report.table import Tone


ONLY_JSON = ("arguments", "reasons", "seeds", "error")
"""Parts of a case that have no place in a row."""


def trial_report(result: TrialResult) -> Report:
    """Return the report of a trial."""
    return Report([_table(result)], [_flat(msgspec.to_builtins(case)) for case in result.cases], data=result)


def _table(result: TrialResult) -> Table:
    cases = [case for case in result.cases if case.verdict is not None]
    columns = (
        Column("case", [case.name or result.problem for case in cases], "name", code=True),
        Column("verdict", [case.verdict or "" for case in cases], "outcome", tones=list(map(_tone, cases))),
        Column("error", list(map(_error, cases))),
        Column("reference", [_time(case.reference_us) for case in cases]),
        Column("solution", [_time(case.solution_us) for case in cases]),
        Column("speed-up", [_ratio(case.speed_up) for case in cases]),
        Column("interval", [_range(case.speed_up) for case in cases], left=True),
        Column("floor", [show_time(case.floor.time_us) if case.floor else "" for case in cases]),
    )
    where = f", {result.gpu}" if result.gpu else ""
    above = [f"{result.solution} against {result.problem} ({result.form}){where}"]
    return Table(columns, above, list(_notes(result)))


def _notes(result: TrialResult) -> Iterator[str]:
    for reason in result.reasons:
        yield from reason.splitlines()
    for case in result.cases:
        yield from (f"note: {case.name}{': ' if case.name else ''}{note}" for note in case.notes)
    skipped = sum(case.verdict is None for case in result.cases)
    if skipped:
        yield f"{count(skipped, 'case')} not reached"
    means = f", {_ratio(result.speed_up)} as fast {_range(result.speed_up)}" if result.speed_up else ""
    yield f"{result.verdict}{means}"


def _tone(case: CaseResult) -> Tone:
    return "pass" if case.verdict == "accepted" else "bad"


def _error(case: CaseResult) -> str:
    if case.error is None:
        return ""
    accuracy = case.error.accuracy
    if accuracy is None or accuracy.max_ulp is None:
        return f"{case.error.max_abs_diff:.2g}"
    return f"{three_digits(accuracy.max_ulp)} ulp"


def _time(time_us: float) -> str:
    return show_time(time_us) if time_us else ""


def _ratio(speed_up: Interval | None) -> str:
    return f"{three_digits(speed_up.value)}x" if speed_up is not None else ""


def _range(speed_up: Interval | None) -> str:
    return f"({speed_up.low:.3f} to {speed_up.high:.3f})" if speed_up is not None else ""


def _flat(value: object, name: str = "") -> dict[str, object]:
    """Return the values of nested dicts by their paths, without those that only JSON has."""
    if not isinstance(value, dict):
        return {name: value}
    parts = {f"{name}.{part}".lstrip("."): inner for part, inner in value.items() if part not in ONLY_JSON}
    return {path: one for part, inner in parts.items() for path, one in _flat(inner, part).items()}
