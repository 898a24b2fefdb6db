"""Judge sampled sessions by the plugin's gate, with baselines drawn from them."""

from __future__ import annotations

import math
from collections import Counter
from itertools import combinations
from math import comb
from random import Random
from statistics import median
from typing import TYPE_CHECKING

import msgspec

from benchmarks.gate_power.kernels import IN_STEPS, POWER_LIMITED
from benchmarks.gate_power.verdicts import Tally
from pytest_gpuperf.baseline.sessions import merged_time
from pytest_gpuperf.judge.gate import Gate
from pytest_gpuperf.records import RUN_SCHEMA, Environment, GpuInfo, Run, Toolchain
from pytest_gpuperf.records.baseline import (
    BASELINE_SCHEMA,
    Baseline,
    BaselineGpu,
    MeasurementBaseline,
    RunNote,
    TestBaseline,
    TimeBaseline,
)
from pytest_gpuperf.statistics.clock_model import normalise_blocks
from pytest_gpuperf.statistics.estimate import trimmed_mean
from pytest_gpuperf.statistics.variance import within

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from benchmarks.gate_power.samples import SessionSample
    from pytest_gpuperf.records import Timing
    from pytest_gpuperf.statistics.decision import Thresholds
    from pytest_gpuperf.statistics.variance import Variance

LABEL = "main"
_SOMEWHERE = Environment(gpu=GpuInfo(name="", slug=""), toolchain=Toolchain())


class Sessions:
    """Sampled sessions by process.

    A kernel counts in a process that has timed it with every dose. A process that was cut short is left out.

    Args:
        lines: The samples.
        at_known_clock: Count a power-limited kernel only if its clock model is known.
    """

    def __init__(self, lines: Iterable[SessionSample], *, at_known_clock: bool = True) -> None:
        by_process: dict[int, dict[tuple[str, int], SessionSample]] = {}
        self.without_clock: set[int] = set()
        """Processes in which a power-limited kernel does not count."""
        for line in lines:
            if at_known_clock and line.kernel in POWER_LIMITED and line.timing.clock_model is None:
                if line.kernel not in IN_STEPS:
                    self.without_clock.add(line.process)
            else:
                by_process.setdefault(line.process, {})[line.kernel, line.permille] = line
        self.doses = sorted({dose for lines in by_process.values() for _, dose in lines})
        kernels: dict[str, set[str]] = {}
        """Kernels that were timed on a card: later samples have more."""
        for found in by_process.values():
            for (kernel, _), line in found.items():
                kernels.setdefault(line.card, set()).add(kernel)
        self.lines: dict[int, dict[tuple[str, int], SessionSample]] = {}
        for process, found in sorted(by_process.items()):
            known = kernels[next(iter(found.values())).card]
            whole = {kernel for kernel in known if all((kernel, dose) in found for dose in self.doses)}
            if 2 * len(whole) > len(known):
                self.lines[process] = {key: line for key, line in found.items() if key[0] in whole}
        times = Counter(kernel for process in self.lines for kernel in self.of(process))
        several = sorted(kernel for kernel, count in times.items() if count > 1)
        self.kernels = sorted(several, key=self.typical_us)
        """Kernels, short ones first."""
        self._baselines: dict[tuple[tuple[int, ...], int], Baseline] = {}

    def of(self, process: int) -> list[str]:
        """Return the kernels that count in a process."""
        return sorted({kernel for kernel, _ in self.lines[process]})

    def of_kernel(self, kernel: str) -> list[SessionSample]:
        """Return the samples of a kernel."""
        return [line for lines in self.lines.values() for (of, _), line in lines.items() if of == kernel]

    def halves(self) -> tuple[list[int], list[int]]:
        """Return the processes for tuning and those held out, of each card in turn."""
        tuning: list[int] = []
        held_out: list[int] = []
        for processes in self._cards().values():
            tuning += processes[::2]
            held_out += processes[1::2]
        return tuning, held_out

    def with_all_kernels(self) -> list[int]:
        """Return the processes on cards that timed all kernels: those of the newest sampling code."""
        kernels: dict[str, set[str]] = {}
        for process in self.lines:
            kernels.setdefault(self.card(process), set()).update(self.of(process))
        # Those in steps count only at a known clock.
        needed = {*self.kernels} - {*IN_STEPS}
        return [each for each in self.lines if needed <= kernels[self.card(each)]]

    def others(self, process: int) -> list[int]:
        """Return all other processes on the card of a process."""
        return [other for other in self._cards()[self.card(process)] if other != process]

    def card(self, process: int) -> str:
        """Return the UUID of the GPU of a process."""
        return next(iter(self.lines[process].values())).card

    def spread(self, kernel: str) -> Variance:
        """Return the variance of a time's logarithm between processes of a card.

        Times are at the reference clock if all processes have one.
        """
        groups = []
        for processes in self._cards().values():
            found = [self.lines[process].get((kernel, 0)) for process in processes]
            timings = [line.timing for line in found if line is not None]
            if not timings:
                continue
            whole = all(timing.normalised_us for timing in timings)
            mhz = timings[0].clock_model.reference_mhz if whole and timings[0].clock_model else 0.0
            groups.append([math.log(time_at(timing, mhz)) for timing in timings])
        return within(groups)

    def baseline(self, stored: tuple[int, ...], dose: int) -> Baseline:
        """Return the baseline that accepting a dose in these processes makes."""
        if (stored, dose) not in self._baselines:
            self._baselines[stored, dose] = self._accepted(stored, dose)
        return self._baselines[stored, dose]

    def _accepted(self, stored: tuple[int, ...], dose: int) -> Baseline:
        tests = {}
        common = [kernel for kernel in self.kernels if all(kernel in self.of(each) for each in stored)]
        for kernel in common:
            timings = [(_run(each), self.lines[each][kernel, dose].timing) for each in stored]
            alike = [(run, found) for run, timing in timings if (found := timing.by(timings[0][1].source))]
            time = msgspec.convert(merged_time({}, alike, replace=True, dates={}), TimeBaseline)
            tests[kernel] = TestBaseline(measurements={LABEL: MeasurementBaseline(time=time)})
        return Baseline(
            schema=BASELINE_SCHEMA,
            gpu=BaselineGpu(slug=""),
            runs={_run(each).id: RunNote(gpu_uuid=self.card(each)) for each in stored},
            tests=tests,
        )

    def typical_us(self, kernel: str) -> float:
        """Return the median time of a kernel over all samples, in microseconds."""
        return median(line.timing.time_us for line in self.of_kernel(kernel))

    def _cards(self) -> dict[str, list[int]]:
        cards: dict[str, list[int]] = {}
        for process in self.lines:
            cards.setdefault(self.card(process), []).append(process)
        return cards


def draws(others: Sequence[int], stored: int, most: int, seed: str) -> list[tuple[int, ...]]:
    """Draw `most` choices of `stored` of the others, or return all if there are no more."""
    if comb(len(others), stored) <= most:
        chosen = list(combinations(others, stored))
        Random(seed).shuffle(chosen)
        return chosen
    rng = Random(seed)
    return [tuple(sorted(rng.sample(others, stored))) for _ in range(most)]


def judge(
    sessions: Sessions,
    new: Sequence[int],
    stored: int,
    most: int,
    thresholds: Thresholds | None = None,
    *,
    kernels: Iterable[str] | None = None,
) -> Tally:
    """Judge each new process against baselines of `stored` other processes on its card.

    The suite is all kernels. Unchanged code is any dose against itself, slower code is a dose against none.

    Args:
        sessions: All sessions.
        new: Processes to judge.
        stored: Number of sessions of a baseline.
        most: Number of baselines to draw for each new process.
        thresholds: Thresholds of the gate; the plugin's own by default.
        kernels: Kernels whose verdicts count; by default all.
    """

    def outcomes(process: int, chosen: Sequence[tuple[int, ...]]) -> Callable[[str, int, int], list[str]]:
        gates = {
            base: [_gate(sessions, process, stored, base, thresholds) for stored in chosen]
            for base in sessions.doses
        }

        def of(kernel: str, base: int, dose: int) -> list[str]:
            timing = sessions.lines[process][kernel, dose].timing
            found = (gate.compare((kernel, LABEL), timing) for gate in gates[base])
            return [each.decision.outcome.value for each in found if each is not None]

        return of

    def chosen(process: int) -> list[tuple[int, ...]]:
        return draws(sessions.others(process), stored, most, f"{process} {stored}")

    return tally(sessions, new, chosen, outcomes, kernels)


def tally(
    sessions: Sessions,
    new: Sequence[int],
    chosen: Callable[[int], list[tuple[int, ...]]],
    rule: Callable[[int, Sequence[tuple[int, ...]]], Callable[[str, int, int], list[str]]],
    kernels: Iterable[str] | None = None,
) -> Tally:
    """Count a rule's verdicts on new processes against stored ones.

    Args:
        sessions: All sessions.
        new: Processes to judge.
        chosen: Choices of stored processes for a new one; none if there are too few.
        rule: Takes a new process and choices; returns a function from kernel, stored dose and new dose to the
            outcome with each choice.
        kernels: Kernels to judge; by default all.
    """
    counted = Tally()
    judged = sessions.kernels if kernels is None else [each for each in sessions.kernels if each in kernels]
    for process in new:
        choices = chosen(process)
        if not choices:
            continue
        outcomes = rule(process, choices)
        for kernel in judged:
            for dose in sessions.doses if (kernel, 0) in sessions.lines[process] else ():
                counted.add(kernel, None, outcomes(kernel, dose, dose))
                if dose and kernel not in IN_STEPS:
                    counted.add(kernel, dose, outcomes(kernel, 0, dose))
    return counted


def _gate(
    sessions: Sessions, process: int, stored: tuple[int, ...], base: int, thresholds: Thresholds | None
) -> Gate:
    baseline = sessions.baseline(stored, base)
    card = sessions.card(process)
    return Gate([baseline], card=card, comparisons=len(baseline.tests), thresholds=thresholds)


def time_at(timing: Timing, mhz: float) -> float:
    """Return a time in microseconds at an SM clock in MHz; as measured without a clock model or with 0."""
    if not mhz or timing.clock_model is None:
        return timing.time_us
    return trimmed_mean(normalise_blocks(timing.blocks_us, timing.blocks_mhz, timing.clock_model, mhz))


def _run(process: int) -> Run:
    return Run(schema=RUN_SCHEMA, id=f"{process:06}", started_at="", environment=_SOMEWHERE)
