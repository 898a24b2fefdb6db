"""Screen sampled sessions by baselines that are drawn from them."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from functools import cache
from itertools import combinations
from math import comb
from random import Random
from statistics import median, variance
from typing import TYPE_CHECKING

from benchmarks.gate_power.kernels import IN_STEPS, POWER_LIMITED
from benchmarks.gate_power.verdicts import FASTER, PASS, SLOWER, Tally
from pytest_gpuperf.baseline.sessions import merged_time
from pytest_gpuperf.judge.settled_suspects import compare_fresh
from pytest_gpuperf.judge.times import Origin, screen
from pytest_gpuperf.records import Settlement
from pytest_gpuperf.records.baseline import RunNote
from pytest_gpuperf.statistics.clock_model import normalise_blocks
from pytest_gpuperf.statistics.decision import Outcome, trimmed_mean
from pytest_gpuperf.statistics.thresholds import FRESH, HELD_BACK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from benchmarks.gate_power.samples import SessionSample
    from pytest_gpuperf.judge.result import TimeComparison
    from pytest_gpuperf.records import Timing
    from pytest_gpuperf.records.baseline import TimeBaseline

FULL_CLOCK, SHORT, BELOW_CLOCK, COLD = "full clock, ≥ 5 µs", "< 5 µs", "below full clock", "cold"
WAITS, HOST = "waits for the GPU", "by the host's clock"
"""Classes of times."""
SHORT_US = 5.0
"""Time below which figures are stated apart."""


class Sessions:
    """Sampled sessions by process.

    A kernel counts in a process that has timed it with every dose. A process that was cut short is left out.

    Args:
        lines: The samples.
        models: Name of the model of each card, by UUID; by default all are of one.
        at_known_clock: Count a power-limited kernel only if its clock model is known.
    """

    def __init__(
        self,
        lines: Iterable[SessionSample],
        models: Mapping[str, str] | None = None,
        *,
        at_known_clock: bool = True,
    ) -> None:
        self._models = models or {}
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
        self._typical = {
            kernel: median(line.timing.time_us for line in self.of_kernel(kernel)) for kernel in times
        }
        self._baselines: dict[tuple[tuple[int, ...], str, int], TimeBaseline | None] = {}
        several = sorted(kernel for kernel, count in times.items() if count > 1)
        self.kernels = sorted(several, key=self.typical_us)
        """Kernels, short ones first."""

    def of(self, process: int) -> list[str]:
        """Return the kernels that count in a process."""
        return sorted({kernel for kernel, _ in self.lines[process]})

    def of_kernel(self, kernel: str) -> list[SessionSample]:
        """Return the samples of a kernel."""
        return [line for lines in self.lines.values() for (of, _), line in lines.items() if of == kernel]

    def others(self, process: int) -> list[int]:
        """Return all other processes on the card of a process."""
        return [other for other in self._cards()[self.card(process)] if other != process]

    def card(self, process: int) -> str:
        """Return the UUID of the GPU of a process."""
        return next(iter(self.lines[process].values())).card

    def spread_pct(self, kernel: str) -> float:
        """Return the standard deviation of a time between processes of a card, in %; 0 if it is not known.

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
        return sd_pct(groups)

    @cache  # noqa: B019 - an analysis has one object, and asks a third of its questions twice
    def screened(
        self, process: int, stored: tuple[int, ...], kernel: str, base: int, dose: int
    ) -> TimeComparison | None:
        """Screen a dose in a process by the sessions of another dose; None if one has no such time."""
        line, known = self.lines[process].get((kernel, dose)), self._known(stored, kernel, base)
        if line is None or known is None:
            return None
        notes = {_run_id(each): RunNote(gpu_uuid=self.card(each)) for each in stored}
        return screen(line.timing, known, Origin(card=line.card, runs=notes))

    def _known(self, stored: tuple[int, ...], kernel: str, dose: int) -> TimeBaseline | None:
        """Return the sessions that accepting a dose of a kernel in these processes makes."""
        key = (stored, kernel, dose)
        if key not in self._baselines:
            self._baselines[key] = None
            lines = [self.lines[each].get((kernel, dose)) for each in stored]
            timings = [(_run_id(at), one.timing) for at, one in zip(stored, lines, strict=True) if one]
            if len(timings) == len(stored):
                known = None
                for run, timing in timings:
                    if alike := timing.by(timings[0][1].source):
                        known = merged_time(known, run, alike, {})
                self._baselines[key] = known
        return self._baselines[key]

    def typical_us(self, kernel: str) -> float:
        """Return the median time of a kernel over all samples, in microseconds."""
        return self._typical[kernel]

    def of_other_cards(self, process: int) -> list[int]:
        """Return all processes on other cards of the same model that have timed one of its kernels."""
        card, kernels = self.card(process), {*self.of(process)}
        model = self._models.get(card, "")
        return [
            other
            for other in self.lines
            if (own := self.card(other)) != card
            and self._models.get(own, "") == model
            and kernels.intersection(self.of(other))
        ]

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


def judge(sessions: Sessions, stored: int, most: int, *, other_card: bool = False) -> dict[str, Tally]:
    """Screen each process by baselines of `stored` other processes, on its card or on others of its model.

    Unchanged code is any dose against itself, slower code is a dose against none. A suspect counts as slower
    or faster.

    Args:
        sessions: All sessions.
        stored: Number of sessions of a baseline.
        most: Number of baselines to draw for each new process.
        other_card: True to draw the baseline from other cards.

    Returns:
        The verdicts of each class of times.
    """

    def outcomes(process: int, chosen: tuple[int, ...], kernel: str, base: int, dose: int) -> tuple[str, str]:
        time = sessions.screened(process, chosen, kernel, base, dose)
        if time is None:
            return "", ""
        timing = sessions.lines[process][kernel, dose].timing
        return _suspect(time), class_of(timing, [time.baseline_mhz], sessions.typical_us(kernel))

    def drawn(process: int) -> list[tuple[int, ...]]:
        others = sessions.of_other_cards(process) if other_card else sessions.others(process)
        return draws(others, stored, most, f"{process} {stored}")

    return _counted(sessions, drawn, outcomes)


def judge_fresh(sessions: Sessions, stored: int, most: int) -> dict[str, Tally]:
    """Settle each suspect by three further processes on its card; see `judge`."""

    def outcomes(process: int, chosen: tuple[int, ...], kernel: str, base: int, dose: int) -> tuple[str, str]:
        *known, one, two, three = chosen
        time = sessions.screened(process, tuple(sorted(known)), kernel, base, dose)
        fresh = [
            sessions.screened(other, tuple(sorted(known)), kernel, base, dose) for other in (one, two, three)
        ]
        if time is None or None in fresh:
            return "", ""
        timing = sessions.lines[process][kernel, dose].timing
        name = class_of(timing, [time.baseline_mhz], sessions.typical_us(kernel))
        if time.decision.outcome is Outcome.PASS:
            return PASS, name
        settlement = Settlement(how="fresh", fresh_us=tuple(each.actual_us for each in fresh if each))
        settled = compare_fresh(settlement, time, 0.0, math.inf if name == HOST else 0.0)
        assert settled is not None
        return settled.decision.outcome.value, name

    def drawn(process: int) -> list[tuple[int, ...]]:
        others = sessions.others(process)
        if len(others) < stored + FRESH:
            return []
        rng = Random(f"{process} {stored} fresh")
        return [tuple(rng.sample(others, stored + FRESH)) for _ in range(most)]

    return _counted(sessions, drawn, outcomes)


def class_of(timing: Timing, mhz: Sequence[float], typical_us: float) -> str:
    """Return the class of a time, whose noise the screen or these figures tell apart."""
    highest = timing.conditions.max_sm_clock_mhz if timing.conditions is not None else 0
    if name := {"cold": COLD, "kernels": WAITS, "host": HOST}.get(timing.mode):
        return name
    if any(0 < each < HELD_BACK * highest for each in (timing.sm_clock_mhz, *mhz)):
        return BELOW_CLOCK
    return SHORT if typical_us < SHORT_US else FULL_CLOCK


def _suspect(time: TimeComparison) -> str:
    if time.decision.outcome is Outcome.PASS:
        return PASS
    return SLOWER if time.decision.change_pct > 0 else FASTER


def _counted(
    sessions: Sessions,
    drawn: Callable[[int], list[tuple[int, ...]]],
    outcomes: Callable[[int, tuple[int, ...], str, int, int], tuple[str, str]],
) -> dict[str, Tally]:
    counted: dict[str, Tally] = defaultdict(Tally)
    for process in sessions.lines:
        choices = drawn(process)
        for kernel in sessions.of(process) if choices else ():
            if kernel not in sessions.kernels:
                continue
            for dose in sessions.doses:
                for base in {0, dose} if kernel not in IN_STEPS else {dose}:
                    found = [outcomes(process, chosen, kernel, base, dose) for chosen in choices]
                    for name in {name for outcome, name in found if outcome}:
                        verdicts = [outcome for outcome, of in found if outcome and of == name]
                        slower_by = None if base == dose else dose
                        counted[name].add(kernel, slower_by, sessions.card(process), verdicts, process)
    return counted


def sd_pct(groups: Iterable[Sequence[float]]) -> float:
    """Return the standard deviation of logarithms within groups, in %; 0 if no group has two."""
    several = [group for group in groups if len(group) > 1]
    df = sum(len(group) - 1 for group in several)
    pooled = sum((len(group) - 1) * variance(group) for group in several) / df if df else 0.0
    return 100 * math.sqrt(pooled)


def time_at(timing: Timing, mhz: float) -> float:
    """Return a time in microseconds at an SM clock in MHz; as measured without a clock model or with 0."""
    if not mhz or timing.clock_model is None:
        return timing.time_us
    return trimmed_mean(normalise_blocks(timing.blocks_us, timing.blocks_mhz, timing.clock_model, mhz))


def _run_id(process: int) -> str:
    return f"{process:06}"
