"""What is left to do when all tests have ended: counters for ncu, and suspects for which memory was short.

One ncu process reads the calls that CUPTI could not read.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace as with_fields
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.counters.profiling_pass import ProfilingPass
from pytest_gpuperf.measure.device.gpu_lock import GpuLock
from pytest_gpuperf.measure.ncu.tool import NO_NCU, find_ncu
from pytest_gpuperf.metrics.chips import chip_of
from pytest_gpuperf.records.call import Call, Selection
from pytest_gpuperf.records.passes import PassFolder
from pytest_gpuperf.session.judge import Judge
from pytest_gpuperf.session.marker import ItemState, Marker
from pytest_gpuperf.session.progress import Display
from pytest_gpuperf.session.settling import Against, Settler

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pytest_gpuperf.judge.result import TestResult
    from pytest_gpuperf.records import Measurement, Profile, TestRecord
    from pytest_gpuperf.records.passes import Invocation, SelectedTest
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
    folder = report.summary().folder
    assert folder is not None
    late = _LateWork(report, records, folder, invocation, Display(report.news, terminal))
    late.read_unread()
    late.settle(judge)
    results = {nodeid: judge.result(record) for nodeid, record in records.items()}
    for result in results.values():
        report.take(result)
    return results


class _LateWork(NamedTuple):
    """The work on the unfinished tests of a run."""

    report: RunReport
    records: dict[str, TestRecord]
    """The records of unfinished tests, by node id; they get the results."""
    folder: Path
    """The folder of the run."""
    invocation: Invocation
    display: Display

    def read_unread(self) -> None:
        """Read by ncu what CUPTI could not read."""
        unread = [one for one in self.records.values() if any(map(is_unread, one.measurements.values()))]
        if not unread:
            return
        tests = [self.report.unfinished[one.nodeid] for one in unread]
        under_ncu = self._run_ncu(tests, unread[0].gpu_uuid)
        reasons: Counter[str] = Counter()
        for test in tests:
            measurements = dict(self.records[test.nodeid].measurements)
            for label, measured in measurements.items():
                if measured.profile is not None and is_unread(measured):
                    found = _read(under_ncu, test, label, measured.profile)
                    reasons[_cause(measured.profile)] += not found.unavailable
                    measurements[label] = replace(measured, profile=found)
            self.records[test.nodeid] = replace(self.records[test.nodeid], measurements=measurements)
        self.report.news.note(
            *(
                f"ncu read {number} call{'s' * (number > 1)} after the tests: {why}"
                for why, number in reasons.items()
                if number
            )
        )

    def _run_ncu(self, tests: Sequence[SelectedTest], card: str) -> ProfilingPass:
        gpu = self.report.judge.environment.gpu
        known = chip_of(gpu.compute_capability)
        ncu = find_ncu(self.report.judge.settings.ncu)
        under_ncu = ProfilingPass(
            PassFolder(self.folder / "ncu"),
            ncu,
            "" if ncu is not None else NO_NCU,
            known.name if known else "",
            card=card,
            launched=lambda _: [],
        )
        try:
            if not under_ncu.unavailable:
                with self.display.alone(GpuLock(card or gpu.uuid)):
                    under_ncu.run(tests, self.invocation, self.display.progress)
        except GpuperfError as error:
            under_ncu.unavailable = str(error)
        return under_ncu

    def settle(self, judge: Judge) -> None:
        """Settle the suspects for which memory was short: their tests hold none any more."""
        short = [one for one in self.records.values() if one.lacks_memory]
        for card in dict.fromkeys(record.gpu_uuid for record in short):
            variables = {**self.invocation.environment, **({"CUDA_VISIBLE_DEVICES": card} if card else {})}
            there = with_fields(self.invocation, environment=variables)
            against, lock = Against.of(judge.settings), GpuLock(card or judge.environment.gpu.uuid)
            with self.display.alone(lock):
                settler = Settler(judge, there, self.folder / "against", self.display, against, is_last=True)
                try:
                    for record in short:
                        if record.gpu_uuid == card:
                            path = self.report.unfinished[record.nodeid].path
                            self.records[record.nodeid] = _settled(settler, record, path)
                finally:
                    self.report.news.note(*settler.notices)
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


def is_unread(measurement: Measurement) -> bool:
    """Return True if CUPTI could not read the counters of a call, and the test went on without them."""
    profile = measurement.profile
    return profile is not None and profile.tolerated and bool(profile.unavailable)


def _read(under_ncu: ProfilingPass, test: SelectedTest, label: str, before: Profile) -> Profile:
    """Return ncu's counters of a call; without them, the profile of CUPTI with both reasons."""
    try:
        call = Call(test.nodeid, label, the_call)
        found = under_ncu.lookup(call, Selection.of_record(before.regex, before.launches), test.metrics)
        why = found.unavailable
    except GpuperfError as error:
        found, why = before, str(error)
    if not why:
        return found
    return replace(before, unavailable=f"{_cause(before)}, and ncu has not read it: {why}")


def _cause(profile: Profile) -> str:
    """Return why CUPTI could not read a call, without advice."""
    return profile.unavailable.partition(";")[0]


def the_call() -> None:
    """Stand for the callable of a test that has ended: messages have its name."""
