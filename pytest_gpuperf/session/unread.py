"""Calls that CUPTI could not read: one ncu process reads them after the tests, which are judged again."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.counters.profiling_pass import ProfilingPass
from pytest_gpuperf.measure.device.lock import GpuLock
from pytest_gpuperf.measure.ncu.tool import NO_NCU, find_ncu
from pytest_gpuperf.metrics.chips import chip_of
from pytest_gpuperf.records.call import Call
from pytest_gpuperf.records.passes import PassFolder
from pytest_gpuperf.records.selection import Selection
from pytest_gpuperf.session.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_gpuperf.judge.result import TestResult
    from pytest_gpuperf.records import Measurement, Profile
    from pytest_gpuperf.records.passes import Invocation, SelectedTest
    from pytest_gpuperf.session.keeping import KeepingRunner
    from pytest_gpuperf.session.progress import Terminal


def is_unread(measurement: Measurement) -> bool:
    """Return True if CUPTI could not read the counters of a call, and the test went on without them."""
    profile = measurement.profile
    return profile is not None and profile.tolerated and bool(profile.unavailable)


def read_unread(
    runner: KeepingRunner, invocation: Invocation, terminal: Terminal | None
) -> dict[str, TestResult]:
    """Read by ncu what CUPTI could not read, and judge those tests again.

    Args:
        runner: The run, whose tests have ended.
        invocation: The command that started pytest.
        terminal: Shows the progress.

    Returns:
        The new results, by node id.
    """
    tests = list(runner.unread.values())
    results = {result.record.nodeid: result for result in runner.results}
    under_ncu = _run(runner, tests, results[tests[0].nodeid].record.gpu_uuid, invocation, terminal)
    runner.expect_all()
    reasons: Counter[str] = Counter()
    for test in tests:
        record = results[test.nodeid].record
        measurements = dict(record.measurements)
        for label, measured in record.measurements.items():
            if measured.profile is not None and is_unread(measured):
                found = _read(under_ncu, test, label, measured.profile)
                reasons[_cause(measured.profile)] += not found.unavailable
                measurements[label] = replace(measured, profile=found)
        results[test.nodeid] = runner.judge_again(replace(record, measurements=measurements))
    runner.notices += under_ncu.notices
    runner.notices += [
        f"ncu read {number} call{'s' * (number > 1)} after the tests: {why}"
        for why, number in reasons.items()
        if number
    ]
    return {test.nodeid: results[test.nodeid] for test in tests}


def _run(
    runner: KeepingRunner,
    tests: Sequence[SelectedTest],
    card: str,
    invocation: Invocation,
    terminal: Terminal | None,
) -> ProfilingPass:
    known = chip_of(runner.environment.gpu.compute_capability)
    ncu = find_ncu(runner.settings.ncu)
    under_ncu = ProfilingPass(
        PassFolder(runner.folder / "ncu"),
        ncu,
        "" if ncu is not None else NO_NCU,
        known.name if known else "",
        card=card,
        launched=lambda _: [],
    )
    lock = GpuLock(card or runner.environment.gpu.uuid)
    try:
        if not under_ncu.unavailable:
            runner.wait_for(lock, terminal)
            under_ncu.run(tests, invocation, partial(Progress, terminal))
    except GpuperfError as error:
        under_ncu.unavailable = str(error)
    finally:
        lock.release()
    return under_ncu


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
