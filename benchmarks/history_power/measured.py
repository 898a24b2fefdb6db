"""Times of fresh processes at one clock, from the samples of other benchmarks."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean, median
from typing import TYPE_CHECKING

from benchmarks.gate_power.samples import SessionSample, read
from benchmarks.gate_power.session_rule import Sessions, time_at
from pytest_gpuperf.statistics.change_points import HistoryPoint
from pytest_gpuperf.statistics.clock_model import normalisation_error

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from pytest_gpuperf.records import Timing

SUITES = {"gate": "gate_power*.jsonl.gz", "synchronising": "synchronising*.jsonl.gz"}
"""Files of samples by suite: the tests of a suite share their processes."""


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
    for suite, pattern in SUITES.items():
        lines = read(sorted(folder.glob(pattern)))
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
            if of == kernel
        }
        mhz = _common_clock([line.timing for line in found.values()])
        points: dict[int, dict[int, HistoryPoint]] = {dose: {} for dose in sessions.doses}
        for (dose, process), line in found.items():
            time_us = time_at(line.timing, mhz)
            points[dose][process] = HistoryPoint(
                time_us, line.card, _error(line.timing, mhz), 0.0 if mhz else line.timing.sm_clock_mhz
            )
        tests.append(Timed(suite, kernel, points))
    return tests


def halves(tests: Sequence[Timed]) -> tuple[list[Timed], list[Timed]]:
    """Return the tests for tuning and those held out: every second of a suite, in the order of times."""
    suites = dict.fromkeys(test.suite for test in tests)
    by_suite = [[test for test in tests if test.suite == suite] for suite in suites]
    tuning = [test for suite in by_suite for test in suite[::2]]
    return tuning, [test for test in tests if test not in tuning]


def _common_clock(timings: Sequence[Timing]) -> float:
    """Return the median of the reference clocks in MHz; 0 if a timing has no clock model."""
    models = [timing.clock_model for timing in timings]
    known = [model.reference_mhz for model in models if model is not None]
    return median(known) if len(known) == len(models) else 0.0


def _error(timing: Timing, mhz: float) -> float:
    """Return the error that bringing a time to another clock adds."""
    if not mhz or timing.clock_model is None:
        return 0.0
    return normalisation_error(fmean(timing.blocks_mhz), timing.clock_model, mhz)
