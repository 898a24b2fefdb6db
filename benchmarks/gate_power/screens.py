"""The stored screen on sampled sessions: the plugin's own gate, with baselines drawn from them."""

from __future__ import annotations

import math
from itertools import combinations
from math import comb
from random import Random
from statistics import fmean, median
from typing import TYPE_CHECKING

import msgspec

from benchmarks.gate_power.verdicts import Tally
from pytest_gpuperf.baseline.schema import (
    BASELINE_SCHEMA,
    Baseline,
    BaselineGpu,
    MeasurementBaseline,
    RunNote,
    TestBaseline,
    TimeBaseline,
)
from pytest_gpuperf.baseline.sessions import merged_time
from pytest_gpuperf.records import RUN_SCHEMA, Environment, GpuInfo, Run, Toolchain
from pytest_gpuperf.timing.clock_model import normalise
from pytest_gpuperf.verdict.gate import Gate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from benchmarks.gate_power.samples import Screened
    from pytest_gpuperf.records import Timing
    from pytest_gpuperf.verdict.decision import Thresholds

LABEL = "main"
_SOMEWHERE = Environment(gpu=GpuInfo(name="", slug=""), toolchain=Toolchain())


class Sessions:
    """Sampled sessions by process.

    A process that was cut short, and a kernel that failed in most of them, are left out: a suite is compared
    as a whole.
    """

    def __init__(self, lines: Iterable[Screened]) -> None:
        by_process: dict[int, dict[tuple[str, int], Screened]] = {}
        for line in lines:
            by_process.setdefault(line.process, {})[line.kernel, line.permille] = line
        keys = {key for lines in by_process.values() for key in lines}
        usual = {
            key for key in keys if 2 * sum(key in lines for lines in by_process.values()) > len(by_process)
        }
        self.lines = {
            process: lines for process, lines in sorted(by_process.items()) if usual <= lines.keys()
        }
        self.kernels = sorted(sorted({kernel for kernel, _ in usual}), key=self._typical_us)
        """Short ones first."""
        self.doses = sorted({dose for _, dose in usual})
        self._usual = usual

    def halves(self) -> tuple[list[int], list[int]]:
        """Processes of each card in turn: for tuning, and held out."""
        tuning: list[int] = []
        held_out: list[int] = []
        for processes in self._cards().values():
            tuning += processes[::2]
            held_out += processes[1::2]
        return tuning, held_out

    def others(self, process: int) -> list[int]:
        """All other processes on the card of one."""
        return [other for other in self._cards()[self.card(process)] if other != process]

    def card(self, process: int) -> str:
        """UUID of the GPU that a process ran on."""
        return next(iter(self.lines[process].values())).card

    def has(self, kernel: str, dose: int) -> bool:
        """Whether a kernel was sampled with a dose."""
        return (kernel, dose) in self._usual

    def log_sd(self, kernel: str) -> float:
        """Standard deviation of the logarithm of a time between processes of a card; 0 where none has two.

        At the reference clock, for processes that all found one.
        """
        groups = []
        for processes in self._cards().values():
            timings = [self.lines[process][kernel, 0].timing for process in processes]
            whole = all(timing.normalised_us for timing in timings)
            mhz = timings[0].clock_model.reference_mhz if whole and timings[0].clock_model else 0.0
            groups.append([math.log(_at(timing, mhz)) for timing in timings])
        squares = [(log - fmean(group)) ** 2 for group in groups for log in group]
        df = len(squares) - len(groups)
        return math.sqrt(sum(squares) / df) if df else 0.0

    def _typical_us(self, kernel: str) -> float:
        return median(
            line.timing.time_us
            for lines in self.lines.values()
            for (of, _), line in lines.items()
            if of == kernel
        )

    def _cards(self) -> dict[str, list[int]]:
        cards: dict[str, list[int]] = {}
        for process in self.lines:
            cards.setdefault(self.card(process), []).append(process)
        return cards


def draws(others: Sequence[int], stored: int, most: int, seed: str) -> list[tuple[int, ...]]:
    """Choices of so many of the others, all of them where there are no more than `most`."""
    if comb(len(others), stored) <= most:
        chosen = list(combinations(others, stored))
        Random(seed).shuffle(chosen)
        return chosen
    rng = Random(seed)
    return [tuple(sorted(rng.sample(others, stored))) for _ in range(most)]


def judge(
    sessions: Sessions, new: Sequence[int], stored: int, most: int, thresholds: Thresholds | None = None
) -> Tally:
    """Judge each new process beside baselines of `stored` other processes on its card.

    The suite is all kernels. Unchanged code is any dose beside itself, changed code is a dose beside none.

    Args:
        sessions: All that there are.
        new: Processes that are judged.
        stored: How many sessions a baseline has.
        most: How many baselines are drawn for each new process.
        thresholds: What counts; the plugin's own where not given.
    """

    def outcomes(process: int, chosen: Sequence[tuple[int, ...]]) -> Callable[[str, int, int], list[str]]:
        gates = {
            base: [_gate(sessions, process, stored, base, thresholds) for stored in chosen]
            for base in sessions.doses
        }

        def of(kernel: str, base: int, dose: int) -> list[str]:
            timing = sessions.lines[process][kernel, dose].timing
            found = (gate.compare((kernel, LABEL), timing) for gate in gates[base])
            return [each.decision.outcome.value if each else "not compared" for each in found]

        return of

    def chosen(process: int) -> list[tuple[int, ...]]:
        return draws(sessions.others(process), stored, most, f"{process} {stored}")

    return tally(sessions, new, chosen, outcomes)


def tally(
    sessions: Sessions,
    new: Sequence[int],
    chosen: Callable[[int], list[tuple[int, ...]]],
    rule: Callable[[int, Sequence[tuple[int, ...]]], Callable[[str, int, int], list[str]]],
) -> Tally:
    """Count what a rule says of new processes beside stored ones.

    Args:
        sessions: All that there are.
        new: Processes that are judged.
        chosen: Choices of stored processes for a new one; none where there are too few.
        rule: Makes of a new process and choices what gives the outcome with each choice, by kernel, dose of
            the stored code and dose of the new code.
    """
    counted = Tally()
    for process in new:
        choices = chosen(process)
        if not choices:
            continue
        outcomes = rule(process, choices)
        for kernel in sessions.kernels:
            for dose in sessions.doses:
                if not sessions.has(kernel, dose):
                    continue
                counted.add(kernel, None, outcomes(kernel, dose, dose))
                if dose:
                    counted.add(kernel, dose, outcomes(kernel, 0, dose))
    return counted


def _gate(
    sessions: Sessions, process: int, stored: Sequence[int], base: int, thresholds: Thresholds | None
) -> Gate:
    tests = {}
    for kernel in sessions.kernels:
        if not sessions.has(kernel, base):
            continue
        timings = [(_run(each), sessions.lines[each][kernel, base].timing) for each in stored]
        alike = [(run, found) for run, timing in timings if (found := timing.by(timings[0][1].figure))]
        time = msgspec.convert(merged_time({}, alike, replace=True, dates={}), TimeBaseline)
        tests[kernel] = TestBaseline(measurements={LABEL: MeasurementBaseline(time=time)})
    baseline = Baseline(
        schema=BASELINE_SCHEMA,
        gpu=BaselineGpu(slug=""),
        runs={_run(each).id: RunNote(gpu_uuid=sessions.card(each)) for each in stored},
        tests=tests,
    )
    return Gate([baseline], card=sessions.card(process), comparisons=len(tests), thresholds=thresholds)


def _at(timing: Timing, mhz: float) -> float:
    if not mhz or timing.clock_model is None:
        return timing.time_us
    return normalise(timing.time_us, fmean(timing.blocks_mhz), timing.clock_model, mhz)


def _run(process: int) -> Run:
    return Run(schema=RUN_SCHEMA, id=f"{process:06}", started_at="", environment=_SOMEWHERE)
