"""Report of a fleet: the results for each model of GPU."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_gpuperf.judge.result import Status
from pytest_gpuperf.report.rows import build_rows, columns_of, header_lines, overall_status
from pytest_gpuperf.report.show import count
from pytest_gpuperf.report.table import Column, Report, Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_gpuperf.report.rows import Summary

TESTS_SHOWN = 60
"""If a model has more tests, only those that did not pass are shown."""


@dataclass(frozen=True)
class OfModel:
    """The results on one model of GPU."""

    gpu: str
    tests: Sequence[dict[str, Any]]
    """In pytest's order."""
    missing: int
    """Number of tests that did not end."""
    runs: Sequence[str]
    """Run files."""
    summary: Summary | None
    """None if no test was judged."""


def fleet_report(models: Sequence[OfModel], exit_status: int) -> Report:
    """Return the report of `gpuperf fleet run`.

    Args:
        models: The results by model.
        exit_status: Exit status of the command.
    """
    tests = [test for model in models for test in model.tests]
    counts = [_counts(model) for model in models]
    data = {"exit_status": exit_status, "models": counts, "tests": tests}
    return Report([*map(_table, models), _overview(counts)], tests, data)


def _counts(model: OfModel) -> dict[str, Any]:
    endings = Counter(test["ending"] for test in model.tests)
    return {
        "gpu": model.gpu,
        "passed": endings["passed"],
        "skipped": endings["skipped"],
        "failed": endings["failed"],
        "lost": endings["lost"],
        "unjudged": endings["unjudged"],
        "missing": model.missing,
        "runs": list(model.runs),
    }


def _table(model: OfModel) -> Table:
    summary = model.summary
    if summary is None:
        return Table(notes=[f"{model.gpu}: no test was judged"])
    results = list(summary.results)
    notes = list(summary.notices)
    if len(results) > TESTS_SHOWN:
        results = [result for result in results if overall_status(result) is not Status.PASS]
        notes.insert(0, f"{count(len(summary.results) - len(results), 'test')} more passed")
    rows = [row for own in build_rows(results) for row in own]
    above = header_lines(summary.environment, summary.replayed_from)
    return Table(columns_of(rows), above=above, notes=notes)


def _overview(models: Sequence[dict[str, Any]]) -> Table:
    columns = [Column("GPU", [model["gpu"] for model in models], "name")]
    for name in ("passed", "skipped", "failed", "lost", "unjudged", "missing"):
        numbers = [model[name] for model in models]
        if any(numbers):
            columns.append(Column(name, [f"{number:,}" for number in numbers]))
    return Table([*columns, Column("run", [", ".join(model["runs"]) for model in models], left=True)])
