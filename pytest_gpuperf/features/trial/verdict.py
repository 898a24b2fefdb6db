"""From the reports and the run of a trial to its result."""

from __future__ import annotations

import os
import re
from pathlib import Path
from statistics import geometric_mean
from typing import TYPE_CHECKING

from pytest_gpuperf._version import __version__
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.features.trial.ratio_intervals import mean_bounds, rounded
from pytest_gpuperf.features.trial.record import (
    TIMED,
    TRIAL_SCHEMA,
    CaseReport,
    CaseResult,
    Interval,
    TrialResult,
)
from pytest_gpuperf.judge.settled_suspects import speed_up
from pytest_gpuperf.judge.time_lower_bound import floor_of
from pytest_gpuperf.records import NO_GPU, TestRecord

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_gpuperf.features.trial.record import CaseTimes, TrialCase, TrialPlan, TrialVerdict
    from pytest_gpuperf.features.trial.trial_process import TrialOutput
    from pytest_gpuperf.records import Correctness, GpuInfo, Measurement

RIGHT: tuple[TrialVerdict, ...] = ("refused", "accepted")
"""Verdicts on a solution whose outputs were right."""
HIDDEN = (f"{os.sep}pytest_gpuperf{os.sep}", "to find the cause: ")
"""Parts of lines about the trial's own test, which is gone."""
NEXT_STEP = re.compile("; (if the function is meant to|name the arguments that it) write.*mutates=.*")
"""A next step for the author of a test."""
NO_RESULT = "the trial ended before this case had a result, as if the solution had ended the process"
LONGEST_REASON = 30
"""Maximum number of lines of a reason."""


def judge_trial(plan: TrialPlan, tried: TrialOutput) -> TrialResult:
    """Judge a trial.

    Raises:
        GpuperfError: The files cannot be used.
    """
    where = tried.run.environment if tried.run is not None else None
    records = {test.nodeid: test for test in tried.run.tests} if tried.run is not None else {}
    cases: list[CaseResult] = []
    for index, case in enumerate(plan.cases):
        report = tried.reports.get(index)
        nothing = TestRecord(nodeid="", measurements={})
        record = next((test for name, test in records.items() if name.endswith(f"[{index}]")), nothing)
        if cases and cases[-1].verdict != "accepted":
            report = None  # not reached
        elif report is None or (report.accepted and not _is_measured(case, report, record)):
            report = CaseReport(case=index, verdict="ended", text=NO_RESULT)
        elif report.cannot_run:
            raise GpuperfError(report.text.removeprefix("gpuperf: "))
        cases.append(_judge_case(case, report, record, where.gpu if where is not None else NO_GPU))
    verdicts = [case.verdict for case in cases if case.verdict is not None]
    speed_ups = [case.speed_up for case in cases if case.speed_up is not None]
    return TrialResult(
        schema=TRIAL_SCHEMA,
        solution=Path(plan.solution).name,
        problem=Path(plan.problem).name,
        form=plan.form,
        correct=all(case.correct for case in cases),
        verdict=verdicts[-1],
        reasons=tuple(
            f"{case.name}: {reason}" if case.name else reason for case in cases for reason in case.reasons
        ),
        speed_up=mean_bounds(speed_ups) if speed_ups else None,
        cases=tuple(cases),
        gpu=where.gpu.name if where is not None else "",
        gpuperf=__version__,
        torch=where.toolchain.torch if where is not None else "",
        seconds=round(tried.seconds, 1),
    )


def _is_measured(case: TrialCase, report: CaseReport, record: TestRecord) -> bool:
    """Return True if the run has what an accepted case needs."""
    parts = record.measurements
    checked = [one.correctness.passed for one in parts.values() if one.correctness is not None]
    timed = report.times is not None and TIMED in parts and parts[TIMED].timing is not None
    return bool(checked) and all(checked) and (timed or not case.timed)


def _judge_case(case: TrialCase, report: CaseReport | None, record: TestRecord, gpu: GpuInfo) -> CaseResult:
    if report is None:
        return CaseResult(name=case.name, arguments=case.arguments, verdict=None, correct=False)
    times, measured = report.times, record.measurements.get(TIMED)
    floor = floor_of(measured, gpu) if measured is not None else None
    return CaseResult(
        name=case.name,
        arguments=case.arguments,
        verdict=report.verdict,
        correct=report.verdict in RIGHT,
        reasons=() if report.accepted else reasons_in(report.text),
        notes=tuple(_notes(measured, times)),
        seeds=report.seeds,
        seconds=report.seconds,
        error=_worst(record),
        reference_us=round(geometric_mean(times.reference_rounds_us), 6) if times else 0.0,
        solution_us=round(geometric_mean(times.solution_rounds_us), 6) if times else 0.0,
        mode=times.in_turn.mode if times else None,
        speed_up=_speed_up(times) if times else None,
        floor=floor if floor is not None and floor.time_us else None,
    )


def reasons_in(text: str) -> tuple[str, ...]:
    """Split pytest's message into reasons: each begins with `gpuperf: `, or there is one."""
    reasons: list[list[str]] = []
    lines = text.splitlines()
    for line in [one for one in lines if not any(word in one for word in HIDDEN)] or lines:
        if line.startswith("gpuperf: ") or not reasons:
            reasons.append([])
        line = NEXT_STEP.sub("", line.removeprefix("gpuperf: ")).replace("--gpuperf-timeout", "--timeout")
        reasons[-1].append(line.replace("this test ", "the solution "))
    return tuple("\n".join(lines[:LONGEST_REASON]) for lines in reasons)


def _worst(record: TestRecord) -> Correctness | None:
    checked = [one.correctness for one in record.measurements.values() if one.correctness is not None]
    return max(checked, key=lambda one: (not one.passed, one.max_abs_diff), default=None)


def _notes(measured: Measurement | None, times: CaseTimes | None) -> Iterator[str]:
    if times is not None and times.restored_bytes:
        yield f"both times hold the copy of {times.restored_bytes:,} bytes of inputs that a side changes"
    if measured is None:
        return
    if measured.correctness is not None and measured.correctness.low_signal:
        yield measured.correctness.low_signal
    verification = measured.timing.verification if measured.timing is not None else None
    if verification is not None and verification.not_verified:
        yield f"the timed calls were not verified: {verification.not_verified}"


def _speed_up(times: CaseTimes) -> Interval | None:
    found = speed_up(times.in_turn)
    return rounded(found) if found is not None else None
