"""What is left to do when all tests have ended: counters for ncu, and suspects for which memory was short."""

from __future__ import annotations

from dataclasses import replace as with_fields
from typing import TYPE_CHECKING

from msgspec.structs import replace

from pytest_gpuperf.measure.device.gpu_lock import GpuLock
from pytest_gpuperf.session.judge import Judge
from pytest_gpuperf.session.late_counters import read_unread
from pytest_gpuperf.session.marker import ItemState, Marker
from pytest_gpuperf.session.progress import Display
from pytest_gpuperf.session.settling import Against, Settler

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_gpuperf.judge.result import TestResult
    from pytest_gpuperf.records import TestRecord
    from pytest_gpuperf.records.passes import Invocation
    from pytest_gpuperf.session.progress import Terminal
    from pytest_gpuperf.session.run_report import RunReport


def finish_tests(
    report: RunReport, invocation: Invocation, terminal: Terminal | None
) -> dict[str, TestResult]:
    """Finish the tests, and judge them again.

    Args:
        report: The run, whose tests have ended.
        invocation: The command that started pytest.
        terminal: Shows the progress.

    Returns:
        The new results, by node id.
    """
    known = {result.record.nodeid: result.record for result in report.results}
    cards = {nodeid: record.gpu_uuid for nodeid, record in known.items() if record.gpu_uuid}
    judge = Judge(report.judge.settings, report.judge.environment, cards=cards)
    records = {nodeid: known[nodeid] for nodeid in report.unfinished}
    display = Display(report.news, terminal)
    read_unread(report, records, invocation, display)
    _settle(report, judge, records, invocation, display)
    results = {nodeid: judge.result(record) for nodeid, record in records.items()}
    for result in results.values():
        report.take(result)
    return results


def _settle(
    report: RunReport,
    judge: Judge,
    records: dict[str, TestRecord],
    invocation: Invocation,
    display: Display,
) -> None:
    """Settle the suspects for which memory was short: their tests hold none any more."""
    short = [one for one in records.values() if one.lacks_memory]
    folder = report.summary().folder
    assert folder is not None
    for card in dict.fromkeys(record.gpu_uuid for record in short):
        variables = {**invocation.environment, **({"CUDA_VISIBLE_DEVICES": card} if card else {})}
        there = with_fields(invocation, environment=variables)
        against, lock = Against.of(judge.settings), GpuLock(card or judge.environment.gpu.uuid)
        with display.alone(lock):
            settler = Settler(judge, there, folder / "against", display, against, is_last=True)
            try:
                for record in short:
                    if record.gpu_uuid == card:
                        path = report.unfinished[record.nodeid].path
                        records[record.nodeid] = _settled(settler, record, path)
            finally:
                report.news.note(*settler.notices)
                settler.close()


def _settled(settler: Settler, record: TestRecord, path: Path) -> TestRecord:
    marker = Marker(tolerance_pct=record.tolerance_pct or None)
    state = ItemState(record.nodeid, marker, path, measurements=dict(record.measurements))
    suspects = [
        label
        for label, one in record.measurements.items()
        if one.settlement is not None and one.settlement.lacks_memory
    ]
    return replace(record, measurements=settler.settle(state, suspects))
