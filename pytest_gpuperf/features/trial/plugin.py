"""The test of `gpuperf try`: a folder with a plan and a test file that imports this module's test."""

from __future__ import annotations

import os
from functools import cache, partial
from multiprocessing.connection import Connection
from pathlib import Path
from traceback import walk_tb
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from msgspec.structs import replace

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.features.trial.leftover_processes import seal
from pytest_gpuperf.features.trial.record import (
    CHANNEL_ENV,
    PLAN_FILE,
    TIMED,
    CaseReport,
    TrialMessage,
    TrialPlan,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_gpuperf.features.trial.problem import Files, Problem
    from pytest_gpuperf.features.trial.record import TrialCase
    from pytest_gpuperf.plugin.facade import Gpuperf
    from pytest_gpuperf.plugin.late_reports import Reports

REPORT = "trial"
"""Name of the property of a test that holds the report of its case."""
MOST_FASTER, LEAST_US = 1.5, 2.0
"""Ratio and difference of two times of a solution, in microseconds, that other inputs do not explain."""
NO_RESULT = "pytest reports success, but not all was compared; expected a solution that leaves pytest alone"
SPREAD = 7919
"""Step from the seeds of one purpose to those of another."""


def pytest_configure(config: pytest.Config) -> None:
    """Send the reports, from the parent of the process that has the solution."""
    if not hasattr(config, "workerinput"):
        seal()
        config.pluginmanager.register(_Reports(int(os.environ.pop(CHANNEL_ENV))), "gpuperf-trial")


class _Reports:
    """Sends what pytest reports.

    Args:
        channel: The descriptor of the socket, which no other process inherits.
    """

    def __init__(self, channel: int) -> None:
        os.set_inheritable(channel, False)
        self._channel = Connection(channel)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Send each failure of a case, or its success."""
        if report.passed and report.when != "call":
            return
        told = dict(report.user_properties).get(REPORT)
        if told is not None:
            case = msgspec.json.decode(str(told), type=CaseReport)
        else:
            # It was ended, or the solution has changed how pytest reports.
            index = int(report.nodeid.rpartition("[")[2].rstrip("]"))
            text = NO_RESULT if report.passed else report.longreprtext
            case = CaseReport(case=index, verdict="ended", text=text)
        if case.accepted and not report.passed:
            # Judged after the test, such as by its floor.
            case = replace(case, verdict="refused", text=report.longreprtext)
        self._send(TrialMessage(report=replace(case, seconds=round(report.duration, 3))))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Send the run."""
        reports: Reports | None = session.config.pluginmanager.get_plugin("gpuperf-reports")
        report = None if reports is None else reports.report
        self._send(TrialMessage(run=None if report is None else report.run()))

    def _send(self, message: TrialMessage) -> None:
        self._channel.send_bytes(msgspec.msgpack.encode(message))


@cache
def plan_in(folder: Path) -> TrialPlan:
    """Read the plan of a folder."""
    return msgspec.json.decode((folder / PLAN_FILE).read_bytes(), type=TrialPlan)


@cache
def _files(folder: Path) -> Files:
    from pytest_gpuperf.features.trial.problem import Files

    return Files(plan_in(folder))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make a test of each case."""
    plan = plan_in(metafunc.definition.path.parent)
    metafunc.parametrize("trial_case", range(len(plan.cases)), ids=str)


def test_solution(gpuperf: Gpuperf, trial_case: int, request: pytest.FixtureRequest) -> None:
    """Check and time the solution in one case."""
    __tracebackhide__ = True
    from pytest_gpuperf.features.trial.round_timing import RefusedTimeError
    from pytest_gpuperf.measure.device.originals import ReplacedError

    trial = _Trial(gpuperf, request.path.parent, trial_case)
    try:
        trial.run()
        return
    except pytest.fail.Exception as error:
        trial.fails(text=str(error.msg))
    except (ReplacedError, RefusedTimeError) as error:
        trial.fails(text=str(error), verdict="refused")
    except GpuperfError as error:
        trial.fails(text=str(error), cannot_run=trial.report.verdict != "refused")
    except (Exception, SystemExit) as error:
        trial.fails(text=trial.described(error), verdict="ended")
    finally:
        request.node.user_properties.append((REPORT, msgspec.json.encode(trial.report).decode()))
    raise pytest.fail.Exception(trial.report.text, pytrace=False)


class _Trial:
    """One case."""

    def __init__(self, gpuperf: Gpuperf, folder: Path, case: int) -> None:
        self._gpuperf = gpuperf
        self._rtol = self._atol = 0.0
        self.plan = plan_in(folder)
        self._files = partial(_files, folder)
        self.report = CaseReport(case=case, verdict="ended")
        """The verdict is that of a failure in the present step."""

    def fails(self, **parts: Any) -> None:
        """Note a failure."""
        self.report = replace(self.report, **parts)

    def run(self) -> None:
        """Check and time the solution."""
        __tracebackhide__ = True
        case = self.plan.cases[self.report.case]
        problem = self._open(case)
        seeds = self._seeds(0, self.plan.seeds)
        self.fails(verdict="wrong", seeds=tuple(seeds))
        for seed in seeds:
            self._check(problem, f"seed {seed}", problem.arguments(seed))
        if case.timed:
            self._time(problem)
        self._files().unchanged.check()
        self.report = replace(self.report, verdict="accepted")

    def _open(self, case: TrialCase) -> Problem:
        """Import the files and make the callables."""
        from pytest_gpuperf.measure.device.originals import library_unchanged

        if self._gpuperf.device.type == "meta":
            raise GpuperfError("torch sees no CUDA GPU", next_step="look at nvidia-smi")
        with library_unchanged():
            problem = self._files().open(case, self._gpuperf.device)
        self._rtol, self._atol = self._tolerances(problem)
        self._solution = problem.solution
        return problem

    def _check(
        self,
        problem: Problem,
        label: str,
        args: tuple[Any, ...],
        inputs: Callable[[int], tuple[Any, ...]] | None = None,
    ) -> None:
        __tracebackhide__ = True
        from pytest_gpuperf.measure.correctness.comparison import ReferenceWithCheck

        self._gpuperf.check(
            self._solution,
            *args,
            inputs=inputs,
            expected=ReferenceWithCheck(problem.reference, problem.objection)
            if problem.judges
            else problem.reference,
            rtol=self._rtol,
            atol=self._atol,
            mutates=problem.mutates,
            label=label,
        )

    def _time(self, problem: Problem) -> None:
        """Time the solution with all defences, then reference and solution in turn."""
        __tracebackhide__ = True
        from pytest_gpuperf.features.trial.round_timing import AlternatingRounds, RefusedTimeError
        from pytest_gpuperf.measure.correctness.comparison import Tolerance
        from pytest_gpuperf.measure.device.gpu_identity import gpu_info
        from pytest_gpuperf.measure.device.originals import library_unchanged
        from pytest_gpuperf.measure.timing.timer import Timer

        mode = None if self.plan.mode == "auto" else self.plan.mode

        def inputs(seed: int) -> tuple[Any, ...]:
            return problem.arguments((self.plan.seed + seed) % 2**31)

        # The timed calls are compared with the reference of the check that has the same inputs.
        self._check(problem, TIMED, (), inputs=inputs)
        self.fails(verdict="refused")
        timing = self._gpuperf.time(self._solution, inputs=inputs, mode=mode, label=TIMED)
        timer = Timer(gpu_info().l2_bytes, self.plan.budget_s, lambda: None)
        rounds = AlternatingRounds(
            problem, timer, self.plan.mode, self.plan.budget_s, Tolerance(self._rtol, self._atol)
        )
        with library_unchanged():
            times = rounds.run(self._seeds(1, self.plan.rounds))
        self.report = replace(self.report, times=times)
        in_turn_us = max(times.solution_rounds_us)
        if timing.mode == times.in_turn.mode and timing.time_us > MOST_FASTER * in_turn_us + LEAST_US:
            raise RefusedTimeError(
                f"the time is refused: {timing.time_us:.3g} µs a call while its outputs were verified, "
                f"{in_turn_us:.3g} µs in turn with the reference"
            )

    def described(self, error: BaseException) -> str:
        """Describe an exception of the files, with its places in them."""
        own = {self.plan.problem, self.plan.solution}
        places = [
            f"    {Path(frame.f_code.co_filename).name}:{line} in {frame.f_code.co_name}"
            for frame, line in walk_tb(error.__traceback__)
            if frame.f_code.co_filename in own
        ]
        return "\n".join([f"{type(error).__name__}: {error}".strip(), *places])

    def _seeds(self, purpose: int, count: int) -> list[int]:
        begin = self.plan.seed + purpose * SPREAD
        return [begin + at for at in range(count)]

    def _tolerances(self, problem: Problem) -> tuple[float, float]:
        """Call the reference for the first times, and choose the tolerances by its output.

        Raises:
            GpuperfError: No solution could agree with it.
        """
        from pytest_gpuperf.features.trial.problem import absolute_tolerance, cloned, why_unusable

        name, args = Path(self.plan.problem).name, problem.arguments(self.plan.seed)
        try:
            output, again = (problem.reference(*cloned(args)) for _ in range(2))
        except Exception as error:
            raise GpuperfError(f"the reference of {name} raised {type(error).__name__}: {error}") from error
        usual = problem.tolerance(output)
        absolute = absolute_tolerance(usual, output)
        # The own check may take several outputs for right, of the reference too.
        if not problem.judges and (why := why_unusable(output, again, usual, absolute)):
            raise GpuperfError(
                f"the reference of {name} {why}",
                expected="tensors of numbers, the same ones for the same inputs",
                next_step="change the problem, such as by model.eval() for dropout",
            )
        rtol, atol = self.plan.rtol, self.plan.atol
        return usual if rtol is None else rtol, absolute if atol is None else atol
