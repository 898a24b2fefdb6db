"""Details of one measurement as plain data, which the page's script shows when a reader opens a row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_gpuperf.features.page.facts import facts_of
from pytest_gpuperf.features.page.pictures import pictures_of
from pytest_gpuperf.judge.counters import compare_counters
from pytest_gpuperf.metrics import METRICS
from pytest_gpuperf.metrics.chips import chip_name
from pytest_gpuperf.records.change import printable, show_pair
from pytest_gpuperf.registry import registry
from pytest_gpuperf.report.show import show_movement
from pytest_gpuperf.report.table import Column, Table
from pytest_gpuperf.report.trace_report import kernel_table, region_line, trace_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_gpuperf.features.page.section import Section
    from pytest_gpuperf.judge.result import TestResult
    from pytest_gpuperf.records import Measurement, Trace
    from pytest_gpuperf.records.change import Change
    from pytest_gpuperf.report.table import Tone

KERNELS_SHOWN = 40
"""Maximum number of kernels in the table of a trace; `gpuperf trace` shows all."""
LINES_SHOWN = 60
"""Maximum number of lines below a finding."""
_EFFECTS: dict[bool | None, Tone] = {True: "worse", False: "better", None: ""}


def details_of(section: Section, result: TestResult, label: str) -> dict[str, Any]:
    """Return everything to show of one measurement: texts, tables and pictures, in their order.

    Args:
        section: The section.
        result: The test.
        label: The label; a test without measurements has none of its own.
    """
    measurement = result.record.measurements.get(label)
    commit = section.run.environment.commit
    line = section.summary.lines.get(result.record.nodeid)
    data = {
        "test": printable(result.record.nodeid),
        "label": "" if label == "main" else printable(label),
        "source": section.links.of_test(commit, result.record.nodeid, line),
        "commit": commit[:7],
        "findings": list(_findings(result, label)),
    }
    if measurement is None:
        return data
    shown = (section, result, label, measurement)
    return data | {"parts": [*_pictures(*shown), *_texts(*shown)]}


def _pictures(
    section: Section, result: TestResult, label: str, measurement: Measurement
) -> Iterator[dict[str, Any]]:
    known, runs = section.known(result, label)
    pictures = pictures_of(
        measurement,
        section.run.environment.gpu,
        baseline=known,
        runs=runs,
        comparison=result.verdict.times.get(label),
        folder=section.folder,
    )
    if pictures:
        yield {"pictures": list(pictures.values())}


def _texts(
    section: Section, result: TestResult, label: str, measurement: Measurement
) -> Iterator[dict[str, Any]]:
    known, _ = section.known(result, label)
    yield {"title": "Measurement", "facts": facts_of(measurement, result.record.sanitizer)}
    if known is not None and (moved := compare_counters(measurement, known).changes):
        before = section.against or "baseline"
        yield {"title": "Counters that moved", "table": _as_data(_moved_table(moved, before))}
    yield from _explained(section, result, label)
    if measurement.trace is not None:
        yield {
            "title": "Kernels of a call",
            "lines": _trace_lines(measurement.trace),
            "table": _as_data(kernel_table(measurement.trace, shown=KERNELS_SHOWN)),
        }


def _findings(result: TestResult, label: str) -> Iterator[dict[str, Any]]:
    """Yield the reasons of the verdict that are about a label, the worst first."""
    for finding in result.verdict.findings:
        if finding.label in ("", label) or label not in result.record.measurements:
            first, *more = finding.line.splitlines() or [""]
            yield {
                "status": finding.status.value,
                "fails": result.verdict.fails_by(finding.status),
                "line": printable(first),
                "details": [printable(line) for line in (*more, *finding.more) if line][:LINES_SHOWN],
            }


def _explained(section: Section, result: TestResult, label: str) -> Iterator[dict[str, Any]]:
    if "explain" not in registry().features:
        return
    from pytest_gpuperf.features.explain.explained import explain_measurement
    from pytest_gpuperf.features.explain.report import explain_report

    gpu = section.run.environment.gpu
    chip = chip_name(gpu.compute_capability, gpu.name)
    found = explain_measurement(result.record, label, chip=chip)
    if found is not None:
        [table] = explain_report([((), [found])]).tables
        columns = [column for column in table.columns if column.title != "test"]
        yield {"title": "Explanation", "table": _as_data(Table(columns, notes=table.notes))}


def _moved_table(changes: Sequence[Change], before: str) -> Table:
    pairs = [show_pair(change.baseline, change.actual) for change in changes]
    units = [METRICS[change.metric].unit if change.metric in METRICS else "" for change in changes]
    return Table(
        [
            Column("counter", [change.metric for change in changes], "name", code=True),
            Column(before, [old for old, _ in pairs]),
            Column("now", [new for _, new in pairs]),
            Column("unit", units, "unit"),
            Column(
                "change",
                [show_movement(change, unit) for change, unit in zip(changes, units, strict=True)],
                tones=[_EFFECTS[change.worse] for change in changes],
            ),
        ]
    )


def _trace_lines(trace: Trace) -> list[str]:
    return [printable(trace_line(trace).removeprefix("trace: ")), printable(region_line(trace))]


def _as_data(table: Table) -> dict[str, Any]:
    """Return a table without its empty columns."""
    shown = [column for column in table.columns if any(column.cells)]
    cells = [["\n".join(map(printable, cell.splitlines())) for cell in column.cells] for column in shown]
    return {
        "titles": [printable(column.title) for column in shown],
        "kinds": [_kind(column) for column in shown],
        "rows": [list(row) for row in zip(*cells, strict=True)],
        "tones": [list(column.tones) for column in shown],
        "notes": [printable(note) for note in table.notes],
    }


def _kind(column: Column) -> str:
    return "code" if column.code else "number" if column.justified_right else ""
