"""Run: the measurements of one execution of `pytest --gpuperf`, test by test."""

from __future__ import annotations

from pytest_gpuperf.records.base import Record
from pytest_gpuperf.records.code import LaunchedCode
from pytest_gpuperf.records.correctness import Accuracy, Correctness, SanitizerResult
from pytest_gpuperf.records.counters import STATIC_SOURCE, Profile
from pytest_gpuperf.records.environment import Environment
from pytest_gpuperf.records.fuzzing import Fuzzing
from pytest_gpuperf.records.quantities import Date, LimitTexts, Schema, Seconds, ToleranceOrZero
from pytest_gpuperf.records.settlement import AgainstTiming, Fingerprint, Settlement
from pytest_gpuperf.records.timing import Timing, WarmUp
from pytest_gpuperf.records.trace import Trace
from pytest_gpuperf.records.value_names import PEAK_MEMORY

RUN_SCHEMA = 1
"""Version of the run file. A reader refuses a newer one and leaves the file as it is."""


class Measurement(Record, frozen=True, kw_only=True):
    """Measurements of one test under one label."""

    correctness: Correctness | None = None
    fuzz: Fuzzing | None = None
    warm_up: WarmUp | None = None
    timing: Timing | None = None
    profile: Profile | None = None
    trace: Trace | None = None
    code: LaunchedCode | None = None
    """Code of the kernels of a timed call; None if it was not looked for."""
    call: Fingerprint | None = None
    """What another call needs in common with this one to be compared; None if it was not timed."""
    in_turn: AgainstTiming | None = None
    """Time in turn with another callable of the test, which `ref` names by its label."""
    settlement: Settlement | None = None
    """Only of a suspect, and of each time with `--gpuperf-against`."""

    @property
    def is_wrong(self) -> bool:
        """True if an output differed from its reference."""
        results = (self.correctness, self.fuzz)
        return any(result is not None and not result.passed for result in results)

    @property
    def is_static(self) -> bool:
        """True if the kernels were compiled, not measured."""
        return self.profile is not None and self.profile.source == STATIC_SOURCE

    @property
    def accuracy(self) -> Accuracy | None:
        """Errors of the output; None if they were not measured."""
        return self.correctness.accuracy if self.correctness is not None else None

    @property
    def exact(self) -> dict[str, float]:
        """Values that are the same in every run of the same code: those of a trace, and memory."""
        found: dict[str, float] = {**self.trace.exact} if self.trace is not None else {}
        if self.timing is not None and self.timing.peak_memory_mb is not None:
            found[PEAK_MEMORY] = self.timing.peak_memory_mb
        return found

    @property
    def has_counters(self) -> bool:
        """True if counters were read; a profile may also only say why they were not."""
        return self.profile is not None and bool(self.profile.combined)

    @property
    def has_values(self) -> bool:
        """True if there is a value to compare with a baseline."""
        parts = (self.timing, self.trace, self.accuracy)
        return self.has_counters or any(part is not None for part in parts)


class TestRecord(Record, frozen=True, kw_only=True):
    """Measurements of one test."""

    __test__ = False  # pytest: not a test class

    nodeid: str
    measurements: dict[str, Measurement]
    """Measurements by label; a test of one callable has only the label `main`."""
    failure: str = ""
    """Type of the exception that ended the test; its measurements are never accepted as baseline."""
    tolerance_pct: ToleranceOrZero = 0.0
    """The test's own tolerance of a slowdown, in %; 0 if it has none."""
    limits: LimitTexts = ()
    """Limits that the test states itself, in its marker or by `gpuperf.limit()`."""
    sanitizer: SanitizerResult | None = None
    """None if it did not run under compute-sanitizer."""
    seconds: Seconds = 0.0
    """Duration from its fixtures to its verdict, without passes before the tests; 0 if unknown."""
    gpu_uuid: str = ""
    """The card, if it is another one than that of the run's environment."""

    @property
    def parts(self) -> tuple[dict[str, Measurement], dict[str, Measurement]]:
        """Results of a GPU and of a compiler, by label: each has a baseline of its own."""
        static = {label: one for label, one in self.measurements.items() if one.is_static}
        return {label: one for label, one in self.measurements.items() if label not in static}, static

    @property
    def skips_itself(self) -> bool:
        """True if the test was skipped, or failed as expected, after it had measured."""
        return self.failure in ("Skipped", "SkipTest", "XFailed")

    @property
    def lacks_memory(self) -> bool:
        """True if a suspect of it can be settled when the process of the test has ended."""
        found = (one.settlement for one in self.measurements.values())
        return any(one is not None and one.lacks_memory for one in found)


class Run(Record, frozen=True, kw_only=True):
    """One execution of `pytest --gpuperf`."""

    schema: Schema
    """`RUN_SCHEMA` of the writer."""
    id: str
    started_at: Date
    """UTC, ISO 8601."""
    environment: Environment
    complete: bool = True
    """False if the run was interrupted."""
    counters_unavailable: str = ""
    """Reason why the whole run has no counters; empty if it has, or if none were asked for."""
    tests: tuple[TestRecord, ...] = ()

    def __post_init__(self) -> None:
        """Refuse two records of one test, which a file may have."""
        if len({test.nodeid for test in self.tests}) < len(self.tests):
            raise ValueError("a test has two records")

    @property
    def cards(self) -> dict[str, str]:
        """UUID of the card of each test, by node id."""
        return {test.nodeid: test.gpu_uuid or self.environment.gpu.uuid for test in self.tests}
