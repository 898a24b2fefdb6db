"""Times of fresh processes at one clock, from the samples of other benchmarks."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.gate_power.kernels import IN_STEPS
from benchmarks.gate_power.samples import SessionSample, read
from benchmarks.gate_power.session_rule import Sessions
from pytest_gpuperf.features.history.change_points import HistoryPoint
from pytest_gpuperf.statistics.clock_model import normalisation_error, normalise_blocks, pool_models
from pytest_gpuperf.statistics.decision import trimmed_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from pytest_gpuperf.records import Timing
    from pytest_gpuperf.statistics.clock_model import ClockModel

SUITES = {
    "gate": ("gate_power.jsonl.gz", "gate_power_later*.jsonl.gz"),
    "synchronising": ("synchronising*.jsonl.gz",),
}
"""Files of samples by suite: the tests of a suite share their processes. Later samples of the gate measure
short kernels at several places in memory, which is another time, and are too few for a history."""


@dataclass(frozen=True)
class Timed:
    """One kernel or callable with all its sessions."""

    suite: str
    name: str
    points: dict[int, dict[int, HistoryPoint]]
    """Sessions by added work in ‰ and process."""

    @property
    def processes(self) -> list[int]:
        """Return the processes in the order in which they ran."""
        return sorted(self.points[0])

    @property
    def doses(self) -> list[int]:
        """Return the measured doses in ‰, with 0."""
        return sorted(self.points)


def read_tests(folder: Path) -> list[Timed]:
    """Read the tests of all suites from the samples in a folder, short ones first in each suite."""
    tests: list[Timed] = []
    for suite, patterns in SUITES.items():
        lines = read(sorted(path for pattern in patterns for path in folder.glob(pattern)))
        tests += from_samples(suite, [line for line in lines if isinstance(line, SessionSample)])
    return tests


def from_samples(suite: str, samples: Iterable[SessionSample]) -> list[Timed]:
    """Return the tests of a suite. As for the gate, a kernel counts in a process that timed every dose."""
    sessions = Sessions(samples)
    tests = []
    for kernel in sessions.kernels:
        found = {
            (dose, process): line
            for process, lines in sessions.lines.items()
            for (of, dose), line in lines.items()
            if of == kernel and not (dose and kernel in IN_STEPS)
        }
        model = _common_model([line.timing for line in found.values()])
        points: dict[int, dict[int, HistoryPoint]] = {dose: {} for dose, _ in found}
        for (dose, process), line in found.items():
            points[dose][process] = _point(line.timing, line.card, model)
        tests.append(Timed(suite, kernel, points))
    return tests


def halves(tests: Sequence[Timed]) -> tuple[list[Timed], list[Timed]]:
    """Return the tests for tuning and those held out: every second of a suite, in the order of times."""
    suites = dict.fromkeys(test.suite for test in tests)
    by_suite = [[test for test in tests if test.suite == suite] for suite in suites]
    tuning = [test for suite in by_suite for test in suite[::2]]
    return tuning, [test for test in tests if test not in tuning]


def _common_model(timings: Sequence[Timing]) -> ClockModel | None:
    """Pool the clock models, as a history does; None if there is none, or a timing has no clock."""
    models = [timing.clock_model for timing in timings if timing.clock_model is not None]
    if not models or not all(timing.sm_clock_mhz for timing in timings):
        return None
    return pool_models(models, median(model.reference_mhz for model in models))


def _point(timing: Timing, card: str, model: ClockModel | None) -> HistoryPoint:
    if model is None:
        return HistoryPoint(timing.time_us, card, 0.0, timing.sm_clock_mhz)
    time_us = trimmed_mean(normalise_blocks(timing.blocks_us, timing.blocks_mhz, model))
    return HistoryPoint(time_us, card, normalisation_error(timing.sm_clock_mhz, model))
