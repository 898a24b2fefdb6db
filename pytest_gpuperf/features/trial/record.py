"""A solution that `gpuperf try` compares with its problem: the plan, each case, and the result."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from pytest_gpuperf.judge.time_lower_bound import Floor
from pytest_gpuperf.records import Run
from pytest_gpuperf.records.base import Record
from pytest_gpuperf.records.number_ranges import (
    AbsoluteTolerance,
    Count,
    Number,
    Positive,
    RelativeTolerance,
    Schema,
    Seconds,
    Time,
    TimeOrZero,
)
from pytest_gpuperf.records.run import Correctness
from pytest_gpuperf.records.settlement import AgainstTiming
from pytest_gpuperf.records.timing import TimingMode

TRIAL_SCHEMA = 1
"""Version of the object of `gpuperf try --json`."""

TIMED = "solution"
"""Label of the measurements with all defences."""
PLAN_FILE = "plan.json"
"""File in the folder of a trial."""
CHANNEL_ENV = "GPUPERF_TRIAL"
"""Variable with the descriptor by which the process of a trial reports."""

Form: TypeAlias = Literal["kernelbench", "gpu-mode"]
"""Form of a problem file: of KernelBench, or of GPU MODE's reference kernels."""
TrialVerdict: TypeAlias = Literal["accepted", "wrong", "refused", "ended"]
"""`accepted`: right in every case, and no defence objects. `wrong`: an output differs from the reference.
`refused`: right, but its time cannot be trusted. `ended`: an exception, a crash, or the time limit."""


class TrialCase(Record, frozen=True, kw_only=True):
    """One choice of the problem's arguments."""

    name: str
    """`size=1024, seed=7`; empty if the problem has no arguments."""
    arguments: dict[str, Any] = {}
    """Keyword arguments of `generate_input`."""
    timed: bool = True
    """False for a case that is only checked."""


class TrialPlan(Record, frozen=True, kw_only=True):
    """Everything that the process of a trial has to know."""

    problem: str
    """Path of the problem file."""
    solution: str
    """Path of the solution file."""
    form: Form
    cases: tuple[TrialCase, ...]
    seed: Count
    """The first seed; the others follow it."""
    seeds: Positive
    """Number of inputs to check in each case."""
    rounds: Positive
    """Number of inputs to time in each timed case."""
    budget_s: Seconds
    mode: str
    rtol: RelativeTolerance | None = None
    """None for the tolerance of the problem's form."""
    atol: AbsoluteTolerance | None = None


class CaseTimes(Record, frozen=True, kw_only=True):
    """Times of reference and solution in turn, each round on other inputs."""

    in_turn: AgainstTiming
    """The reference is the older code."""
    reference_rounds_us: tuple[Time, ...] = ()
    """Time of the reference in each round, in microseconds a call."""
    solution_rounds_us: tuple[Time, ...] = ()
    restored_bytes: Count = 0
    """Inputs that both sides restore before each call, within its time; 0 if no side changes them."""


class CaseReport(Record, frozen=True, kw_only=True):
    """End of one case."""

    case: Count
    """Index of the case in the plan."""
    verdict: TrialVerdict
    text: str = ""
    """pytest's message; empty if it was accepted."""
    cannot_run: bool = False
    """True if the files cannot be used at all: the user must fix them first."""
    times: CaseTimes | None = None
    seeds: tuple[Count, ...] = ()
    """Seeds of the inputs that were checked."""
    seconds: Seconds = 0.0
    """Wall clock of the case."""

    @property
    def accepted(self) -> bool:
        """True if the case was accepted."""
        return self.verdict == "accepted"


class TrialMessage(Record, frozen=True, kw_only=True):
    """A message from the process of a trial."""

    report: CaseReport | None = None
    run: Run | None = None
    """All measurements; the last message."""


class Interval(Record, frozen=True, kw_only=True):
    """An estimate, and three standard errors on either side of it."""

    value: Number
    low: Number
    high: Number


class CaseResult(Record, frozen=True, kw_only=True, omit_defaults=False):
    """Result of one case."""

    name: str
    arguments: dict[str, Any]
    verdict: TrialVerdict | None
    """None if an earlier case ended the trial."""
    correct: bool
    reasons: tuple[str, ...] = ()
    """Why it was not accepted."""
    notes: tuple[str, ...] = ()
    """What else to know: a reference that tells little, timed calls that could not be verified."""
    seeds: tuple[Count, ...] = ()
    """Seeds of the inputs that were checked."""
    error: Correctness | None = None
    """Error figures of the worst of them."""
    reference_us: TimeOrZero = 0.0
    """Time of the reference in turn with the solution, in microseconds a call; 0 if it was not timed."""
    solution_us: TimeOrZero = 0.0
    mode: TimingMode | None = None
    """Mode of both times."""
    speed_up: Interval | None = None
    """Time of the reference over time of the solution."""
    seconds: Seconds = 0.0
    """Wall clock of the case."""
    floor: Floor | None = None
    """Least time that the GPU allows; None if nothing is known of the work, or of the GPU."""


class TrialResult(Record, frozen=True, kw_only=True, omit_defaults=False):
    """The object of `gpuperf try --json`."""

    schema: Schema
    """`TRIAL_SCHEMA`."""
    solution: str
    """Name of the solution file."""
    problem: str
    form: Form
    correct: bool
    """True if every case was checked and is right."""
    verdict: TrialVerdict
    """The worst of the cases."""
    reasons: tuple[str, ...]
    """Why it was not accepted; empty if it was."""
    speed_up: Interval | None
    """Geometric mean over the timed cases; None if none was timed."""
    cases: tuple[CaseResult, ...]
    gpu: str
    """Name of the GPU; empty if no case got that far."""
    gpuperf: str
    """Version of this package."""
    torch: str
    seconds: Seconds
    """Wall clock of the trial."""
