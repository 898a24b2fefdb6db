"""The test of `gpuperf try`: a folder with a plan and a test file that imports this module's test.

The reports go to a file as they come: a case may end its process.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from traceback import walk_tb
from typing import TYPE_CHECKING, Any, Literal, NoReturn

import msgspec
import pytest

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.features.trial.record import (
    PLAN_FILE,
    REPORTS_FILE,
    TIMED,
    CaseReport,
    CaseTimes,
    TrialPlan,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_gpuperf.features.trial.problem import Files, Problem
    from pytest_gpuperf.features.trial.record import TrialCase
    from pytest_gpuperf.plugin.facade import Gpuperf

    Stage = Literal["load", "check", "time"]

STAGE, TIMES, CANNOT_RUN, RAISED = "trial.stage", "trial.times", "trial.cannot_run", "trial.raised"
SEEDS, DONE = "trial.seeds", "trial.done"
"""Names of what a test tells with its report."""
MOST_FASTER, LEAST_US = 1.5, 2.0
"""Ratio and difference of two times of a solution, in microseconds, that other inputs do not explain."""
NOT_DONE = "pytest reports success, but not all was compared; expected a solution that leaves pytest alone"
SPREAD = 7919
"""Step from the seeds of one purpose to those of another."""


def pytest_configure(config: pytest.Config) -> None:
    """Write the reports, in the process that has them all."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Reports(config.rootpath), "gpuperf-trial")


class _Reports:
    def __init__(self, folder: Path) -> None:
        self._file = folder / REPORTS_FILE
        self._lines = b""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the first failure of each case, or its success."""
        if report.passed and report.when != "call":
            return
        told = dict(report.user_properties)
        # A solution can change how pytest reports a failure.
        passed = report.passed and DONE in told
        case = CaseReport(
            case=int(report.nodeid.rpartition("[")[2].rstrip("]")),
            passed=passed,
            stage=str(told.get(STAGE, "")) if not (passed or report.skipped) else "",  # type: ignore[arg-type]
            text=NOT_DONE if report.passed and not passed else _message(report),
            raised=RAISED in told,
            seeds=tuple(map(int, str(told[SEEDS]).split(","))) if SEEDS in told else (),
            seconds=round(report.duration, 3),
            cannot_run=CANNOT_RUN in told,
            times=msgspec.json.decode(str(told[TIMES]), type=CaseTimes) if TIMES in told else None,
        )
        self._lines += msgspec.json.encode(case) + b"\n"
        # Not appended: the solution can write to the file, too.
        whole = self._file.with_suffix(".new")
        whole.write_bytes(self._lines)
        whole.replace(self._file)


def _message(report: pytest.TestReport) -> str:
    """Return the message of a failure without its traceback."""
    crash = getattr(report.longrepr, "reprcrash", None)
    text = str(getattr(crash, "message", "") or report.longreprtext)
    return text.removeprefix("Failed: ")


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
    trial = _Trial(gpuperf, request.node, request.path.parent)
    case = trial.plan.cases[trial_case]
    try:
        problem = trial.open(case)
        trial.check(problem)
        if case.timed:
            trial.time(problem)
        trial.done()
    except (Exception, SystemExit) as error:
        trial.raised(error)


class _Trial:
    """One case."""

    def __init__(self, gpuperf: Gpuperf, item: pytest.Item, folder: Path) -> None:
        self._gpuperf = gpuperf
        self._item = item
        self._folder = folder
        self._rtol = self._atol = 0.0
        self.plan = plan_in(folder)

    def open(self, case: TrialCase) -> Problem:
        """Import the files and make the callables."""
        __tracebackhide__ = True
        from pytest_gpuperf.measure.device.kept import ReplacedError, library_unchanged

        self._enter("load")
        try:
            if self._gpuperf.device.type == "meta":
                raise GpuperfError("torch sees no CUDA GPU", next_step="look at nvidia-smi")
            with library_unchanged():
                problem = _files(self._folder).open(case, self._gpuperf.device)
            self._rtol, self._atol = self._tolerances(problem)
            self._solution = problem.solution
        except ReplacedError as error:
            self._enter("time")
            _fail(str(error))
        except GpuperfError as error:
            self._tell(CANNOT_RUN, "yes")
            _fail(str(error))
        return problem

    def check(self, problem: Problem) -> None:
        """Compare the outputs for several inputs."""
        __tracebackhide__ = True
        self._enter("check")
        for seed in self._seeds(0, self.plan.seeds):
            self._check(problem, f"seed {seed}", problem.arguments(seed))

    def _check(
        self,
        problem: Problem,
        label: str,
        args: tuple[Any, ...],
        inputs: Callable[[int], tuple[Any, ...]] | None = None,
    ) -> None:
        __tracebackhide__ = True
        from pytest_gpuperf.measure.correctness.judged import Judged

        self._gpuperf.check(
            self._solution,
            *args,
            inputs=inputs,
            expected=Judged(problem.reference, problem.objection) if problem.judges else problem.reference,
            rtol=self._rtol,
            atol=self._atol,
            mutates=problem.mutates,
            label=label,
        )

    def time(self, problem: Problem) -> None:
        """Time the solution with all defences, then reference and solution in turn."""
        __tracebackhide__ = True
        from pytest_gpuperf.features.trial.in_turn import InTurn, WrongWhileTimedError
        from pytest_gpuperf.measure.correctness.comparison import Tolerance
        from pytest_gpuperf.measure.device.gpu import gpu_info
        from pytest_gpuperf.measure.device.kept import library_unchanged
        from pytest_gpuperf.measure.timing.timer import Timer

        mode = None if self.plan.mode == "auto" else self.plan.mode

        def inputs(seed: int) -> tuple[Any, ...]:
            return problem.arguments((self.plan.seed + seed) % 2**31)

        # The timed calls are compared with the reference of the check that has the same inputs.
        self._check(problem, TIMED, (), inputs=inputs)
        self._enter("time")
        timing = self._gpuperf.time(self._solution, inputs=inputs, mode=mode, label=TIMED)
        timer = Timer(gpu_info().l2_bytes, self.plan.budget_s, lambda: None)
        rounds = InTurn(problem, timer, self.plan.mode, self.plan.budget_s, Tolerance(self._rtol, self._atol))
        try:
            with library_unchanged():
                times = rounds.run(self._seeds(1, self.plan.rounds))
        except (GpuperfError, WrongWhileTimedError) as error:
            _fail(str(error))
        self._tell(TIMES, msgspec.json.encode(times).decode())
        in_turn_us = max(times.solution_rounds_us)
        if timing.mode == times.in_turn.mode and timing.time_us > MOST_FASTER * in_turn_us + LEAST_US:
            _fail(
                f"the time is refused: {timing.time_us:.3g} µs a call while its outputs were verified, "
                f"{in_turn_us:.3g} µs in turn with the reference"
            )
        if changed := _files(self._folder).unchanged.check():
            _fail(changed)

    def done(self) -> None:
        """Tell that all was compared."""
        self._tell(DONE, "yes")

    def raised(self, error: BaseException) -> NoReturn:
        """Fail with an exception of the files, and its places in them."""
        __tracebackhide__ = True
        self._tell(RAISED, "yes")
        own = {self.plan.problem, self.plan.solution}
        places = [
            f"    {Path(frame.f_code.co_filename).name}:{line} in {frame.f_code.co_name}"
            for frame, line in walk_tb(error.__traceback__)
            if frame.f_code.co_filename in own
        ]
        _fail("\n".join([f"{type(error).__name__}: {error}".strip(), *places]))

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

    def _enter(self, stage: Stage) -> None:
        self._tell(STAGE, stage)
        if stage == "check":
            self._tell(SEEDS, ",".join(map(str, self._seeds(0, self.plan.seeds))))

    def _tell(self, name: str, value: str) -> None:
        self._item.user_properties.append((name, value))


def _fail(text: str) -> NoReturn:
    __tracebackhide__ = True
    raise pytest.fail.Exception(text, pytrace=False) from None
