"""Report of a fleet: the results for each model of GPU."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from pytest_gpuperf.judge.result import Status
from pytest_gpuperf.records.files import relative_path
from pytest_gpuperf.report.number_format import count
from pytest_gpuperf.report.rows import build_rows, columns_of, header_lines
from pytest_gpuperf.report.table import Column, Report, Table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from pytest_gpuperf.features.fleet.results import ModelResults

TESTS_SHOWN = 60
"""If a model has more tests, only those that did not pass are shown."""
ENDINGS = ("passed", "skipped", "failed", "lost", "unjudged", "missing")


def fleet_report(
    models: Sequence[ModelResults], paths: Mapping[str, Sequence[Path]], exit_status: int, *, replayed: bool
) -> Report:
    """Return the report of `gpuperf fleet run`.

    Args:
        models: The results by model.
        paths: The run files of each model.
        exit_status: Exit status of the command.
        replayed: True if recorded runs were judged again.
    """
    tests = [test for model in models for test in _tests(model)]
    counts = []
    for model in models:
        endings: Counter[str] = Counter(outcome.ending for outcome in model.outcomes.values())
        numbers = {name: endings[name] for name in ENDINGS}
        numbers["missing"] = len(model.nodeids) - len(model.outcomes)
        runs = [*map(relative_path, paths.get(model.model, ()))]
        counts.append({"gpu": model.model, **numbers, "runs": runs})
    data = {"exit_status": exit_status, "models": counts, "tests": tests}
    tables = [_table(model, replayed=replayed) for model in models]
    return Report([*tables, _overview(counts)], tests, data)


def _tests(model: ModelResults) -> list[dict[str, Any]]:
    verdicts = {result.record.nodeid: result.status.value for result in model.results}
    return [
        {
            "test": nodeid,
            "gpu": model.model,
            "ending": outcome.ending,
            "verdict": verdicts.get(nodeid, ""),
            "seconds": outcome.seconds,
            "message": outcome.message,
            "worker": model.workers.get(nodeid, ""),
        }
        for nodeid in model.nodeids
        if (outcome := model.outcomes.get(nodeid)) is not None
    ]


def _table(model: ModelResults, *, replayed: bool) -> Table:
    results, notes = model.results, []
    if not results:
        return Table(notes=[f"{model.model}: no test was judged"])
    if len(results) > TESTS_SHOWN:
        shown = [result for result in results if result.status is not Status.PASS]
        notes = [f"{count(len(results) - len(shown), 'test')} more passed"]
        results = shown
    rows = [row for own in build_rows(results) for row in own]
    run = model.runs()[0]
    above = header_lines(run.environment, run if replayed else None)
    return Table(columns_of(rows), above=above, notes=notes)


def _overview(models: Sequence[dict[str, Any]]) -> Table:
    columns = [Column("GPU", [model["gpu"] for model in models], "name")]
    for name in ENDINGS:
        numbers = [model[name] for model in models]
        if any(numbers):
            columns.append(Column(name, [f"{number:,}" for number in numbers]))
    return Table([*columns, Column("run", [", ".join(model["runs"]) for model in models], left=True)])
