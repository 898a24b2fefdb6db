"""Summarise samples: tune thresholds on one half of the data, count verdicts on the other."""

from __future__ import annotations

import math
from dataclasses import asdict
from statistics import fmean, median
from typing import TYPE_CHECKING

import msgspec

from benchmarks import results_file
from benchmarks.gate_power import restart_rule, rivals, session_rule, tuning
from benchmarks.gate_power.kernels import IN_STEPS, POWER_LIMITED
from benchmarks.gate_power.samples import Began, Failed, RestartSample, SessionSample
from benchmarks.gate_power.tuning import DRAWS
from benchmarks.gate_power.verdicts import Tally, Verdicts
from pytest_gpuperf.records import Environment
from pytest_gpuperf.statistics.decision import Thresholds
from pytest_gpuperf.statistics.variance import within

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence
    from pathlib import Path

    from benchmarks.gate_power.samples import Line
    from pytest_gpuperf.statistics.variance import Variance

SCHEMA = 2
STORED = (1, 3, 5, 8)
"""Numbers of sessions of a baseline."""
AGAINST = "against"
TUNED = "2026-11-25T19"
"""Date of the thresholds for restarts: cards that were sampled later have not tuned them."""
NEWEST_STORED = 5
"""Number of sessions of the baselines by which the newest sessions are judged."""
SHORT_US = 5.0
"""Time below which figures are stated apart."""


def baseline_name(stored: int) -> str:
    """Return `baseline of 5 sessions`."""
    return f"baseline of {stored} session{'' if stored == 1 else 's'}"


class Rule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Verdicts of one rule."""

    name: str
    unchanged: Verdicts
    """Verdicts on unchanged code."""
    doses: dict[str, Verdicts]
    """Verdicts on slower code, by the added work in ‰."""
    kernels: dict[str, dict[str, Verdicts]] = {}
    """Verdicts on slower code, by kernel and ‰; for the held-out half only."""
    seconds: float
    """Wall-clock seconds on the GPU for one verdict on one test."""


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """Verdicts of all rules on a part of the samples."""

    processes: int
    """Number of new sessions judged."""
    restarts: int
    """Number of restarts judged."""
    rules: list[Rule]


class Effect(msgspec.Struct, frozen=True, kw_only=True):
    """Effect of the doses on the time of a kernel."""

    kernel: str
    time_us: float
    """Time without a dose: median over the processes."""
    session_sd_pct: float
    """Standard deviation between the processes of a card, without a dose; 0 if there is only one."""
    restart_sd_pct: float
    """Standard deviation of the ratio between restarts of one order on one card, at one clock, of unchanged
    code; 0 if there are none."""
    raw_restart_sd_pct: float
    """The same over all restarts of a card, of times as measured."""
    doses_pct: dict[str, float]
    """Change of the time by the added work in ‰: mean over the restarts, or else the processes."""


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """Summary of all samples, as the pages show it."""

    schema: int
    date: str
    environment: Environment | None
    commits: list[str]
    """Commits of the sampling code, in the order of the files."""
    cards: int
    processes: int
    without_clock: int
    """Number of processes in which a power-limited kernel does not count, for lack of a clock model."""
    restarts: int
    effects: list[Effect]
    shipped: dict[str, float]
    """Thresholds that were varied, with their values in the package."""
    tuned: dict[str, float]
    """Best thresholds on the tuning half."""
    tuned_swapped: dict[str, float]
    """Best thresholds on the held-out half."""
    tried: list[tuning.Tried]
    held_out: Figures
    """The half that tuned nothing, with the shipped thresholds."""
    held_out_tuned: Figures
    """The same half with the tuned thresholds; without the rules that have none."""
    everything: Figures
    """Both halves, with the shipped thresholds."""
    whatever_clock: Figures
    """The power-limited kernels in all sessions, with or without a clock model; by baselines, with the
    shipped thresholds."""
    newest: dict[str, Rule] = {}
    """Verdicts on the held-out sessions that timed all kernels, by GPU model; kernels from `SHORT_US` on.
    Older sessions were measured in another way, which tells little of the slowdowns found today."""
    newest_against: dict[str, Rule] = {}
    """The same for restarts on cards that have tuned nothing."""
    failed: list[str]


def read(path: Path) -> Summary:
    """Read the file; see `benchmarks.results_file.read`."""
    return results_file.read(path, Summary, schema=SCHEMA)


def analyse(lines: Iterable[Line], choices: Iterable[Mapping[str, float]] = tuning.CHOICES) -> Summary:
    """Summarise samples; the same samples give the same summary.

    Args:
        lines: The samples.
        choices: Thresholds to try; see `tuning.tried`.
    """
    lines = list(lines)
    samples = [line for line in lines if isinstance(line, SessionSample)]
    began = [line for line in lines if isinstance(line, Began)]
    sessions = session_rule.Sessions(samples)
    models = {line.environment.gpu.uuid: line.environment.gpu.name for line in began}
    older = {line.environment.gpu.uuid for line in began if line.date < TUNED}
    restarts = restart_rule.Restarts(
        (line for line in lines if isinstance(line, RestartSample)), newer=models.keys() - older
    )
    shipped = Thresholds()
    tuning_sessions, held_out = sessions.halves()
    tuning_restarts, held_out_restarts = restarts.halves()
    tried = tuning.tried(sessions, restarts, shipped, choices)
    tuned = tuning.best(tried, lambda each: each.tuning)
    on_tuning = _judged(sessions, tuning_sessions, restarts, tuning_restarts, shipped)
    on_held_out = _judged(sessions, held_out, restarts, held_out_restarts, shipped)
    with_tuned = tuning.changed(shipped, tuned)
    tuned_on_held_out = _judged(sessions, held_out, restarts, held_out_restarts, with_tuned, others=False)
    judged_restarts, all_restarts = (
        restart_rule.in_series(restarts, numbers, shipped)
        for numbers in (held_out_restarts, restarts.numbers)
    )
    return Summary(
        schema=SCHEMA,
        date=began[0].date if began else "",
        environment=began[0].environment if began else None,
        commits=list(dict.fromkeys(line.environment.commit for line in began)),
        cards=len({line.card for line in lines if isinstance(line, SessionSample | RestartSample)}),
        processes=len(sessions.lines),
        without_clock=len(sessions.without_clock),
        restarts=len(restarts.numbers),
        effects=_effects(sessions, restarts),
        shipped={name: asdict(shipped)[name] for name in tuned},
        tuned=tuned,
        tuned_swapped=tuning.best(tried, lambda each: each.held_out),
        tried=tried,
        held_out=_figures(held_out, judged_restarts, on_held_out, by_kernel=True),
        held_out_tuned=_figures(held_out, judged_restarts, tuned_on_held_out),
        everything=_figures(list(sessions.lines), all_restarts, on_held_out, on_tuning),
        whatever_clock=_whatever_clock(session_rule.Sessions(samples, at_known_clock=False), shipped),
        newest=_newest(sessions, held_out, models, shipped),
        newest_against=_newest_against(sessions, restarts, older, models, shipped),
        failed=[f"{line.what}: {line.why}" for line in lines if isinstance(line, Failed)],
    )


def _judged(
    sessions: session_rule.Sessions,
    new: Sequence[int],
    restarts: restart_rule.Restarts,
    chosen: Sequence[int],
    thresholds: Thresholds,
    *,
    others: bool = True,
) -> dict[str, tuple[Tally, list[float]]]:
    """Return each rule's verdicts and their seconds."""
    lines = [line for process in new for line in sessions.lines[process].values()]
    judged = {
        baseline_name(stored): (
            session_rule.judge(sessions, new, stored, DRAWS, thresholds),
            [line.seconds for line in lines],
        )
        for stored in STORED
    }
    judged[AGAINST] = restart_rule.judge(restarts, chosen, DRAWS, thresholds)
    for name, rival in rivals.RIVALS.items() if others else ():
        judged[name] = (
            rivals.judge(sessions, new, DRAWS, rival.exceeds),
            [rival.seconds(line) for line in lines],
        )
    return judged


def _figures(
    new: Sequence[int],
    restarts: int,
    *judged: Mapping[str, tuple[Tally, list[float]]],
    by_kernel: bool = False,
) -> Figures:
    rules = []
    for name in judged[0]:
        tally = Tally.together([part[name][0] for part in judged])
        seconds = [each for part in judged for each in part[name][1]]
        if tally.verdicts(None).count:
            kernels = tally.kernels if by_kernel else []
            rules.append(
                Rule(
                    name=name,
                    unchanged=tally.verdicts(None),
                    doses={str(dose): tally.verdicts(dose) for dose in tally.doses},
                    kernels={
                        kernel: {str(dose): tally.verdicts(dose, kernel) for dose in tally.doses}
                        for kernel in kernels
                    },
                    seconds=round(fmean(seconds), 4),
                )
            )
    return Figures(processes=len(new), restarts=restarts, rules=rules)


def _whatever_clock(sessions: session_rule.Sessions, thresholds: Thresholds) -> Figures:
    new = list(sessions.lines)
    limited = [kernel for kernel in POWER_LIMITED if kernel not in IN_STEPS]
    rules: list[Rule] = []
    for stored in STORED:
        tally = session_rule.judge(sessions, new, stored, DRAWS, thresholds, kernels=limited)
        rules.extend(
            Rule(
                name=baseline_name(stored),
                unchanged=tally.verdicts(None, kernel),
                doses={str(dose): tally.verdicts(dose, kernel) for dose in tally.doses},
                seconds=round(fmean(line.seconds for line in sessions.of_kernel(kernel)), 4),
            )
            for kernel in limited
            if tally.verdicts(None, kernel).count
        )
    return Figures(processes=len(new), restarts=0, rules=rules)


def _newest(
    sessions: session_rule.Sessions,
    held_out: Sequence[int],
    models: Mapping[str, str],
    thresholds: Thresholds,
) -> dict[str, Rule]:
    newest = set(sessions.with_all_kernels())
    kernels = [kernel for kernel in sessions.kernels if sessions.typical_us(kernel) >= SHORT_US]
    by_model: dict[str, list[int]] = {}
    for process in held_out:
        if process in newest:
            by_model.setdefault(models.get(sessions.card(process), ""), []).append(process)
    judged = {
        model: session_rule.judge(sessions, processes, NEWEST_STORED, DRAWS, thresholds, kernels=kernels)
        for model, processes in sorted(by_model.items())
    }
    seconds = [line.seconds for process in newest for line in sessions.lines[process].values()]
    return {
        model: _rule(baseline_name(NEWEST_STORED), tally, seconds)
        for model, tally in judged.items()
        if tally.verdicts(None).count
    }


def _newest_against(
    sessions: session_rule.Sessions,
    restarts: restart_rule.Restarts,
    older: Container[str],
    models: Mapping[str, str],
    thresholds: Thresholds,
) -> dict[str, Rule]:
    kernels = [kernel for kernel in restarts.kernels if sessions.typical_us(kernel) >= SHORT_US]
    chosen: dict[str, list[int]] = {}
    for card, numbers in restarts.cards.items():
        if card not in older:
            chosen.setdefault(models.get(card, ""), []).extend(numbers)
    judged = {
        model: restart_rule.judge(restarts, numbers, DRAWS, thresholds, kernels)
        for model, numbers in sorted(chosen.items())
    }
    return {
        model: _rule(AGAINST, tally, seconds)
        for model, (tally, seconds) in judged.items()
        if tally.verdicts(None).count
    }


def _rule(name: str, tally: Tally, seconds: Sequence[float]) -> Rule:
    return Rule(
        name=name,
        unchanged=tally.verdicts(None),
        doses={str(dose): tally.verdicts(dose) for dose in tally.doses},
        seconds=round(fmean(seconds), 4),
    )


def _effects(sessions: session_rule.Sessions, restarts: restart_rule.Restarts) -> list[Effect]:
    effects = []
    for kernel in sessions.kernels:
        doses = {}
        for dose in sessions.doses:
            ratios = [
                line.log_ratio
                for (of, old, new), lines in restarts.lines.items()
                if (of, old, new) == (kernel, 0, dose)
                for line in lines.values()
            ] or [
                math.log(lines[kernel, dose].timing.time_us / lines[kernel, 0].timing.time_us)
                for lines in sessions.lines.values()
                if (kernel, dose) in lines
            ]
            if dose and ratios:
                doses[str(dose)] = round(100 * math.expm1(fmean(ratios)), 3)
        unchanged = restarts.lines.get((kernel, 0, 0), {})
        of_cards = [
            [(at, unchanged[at]) for at in numbers if at in unchanged] for numbers in restarts.cards.values()
        ]
        orders = [
            [line.log_ratio for at, line in card if at % 2 == order]
            for card in of_cards
            for order in range(2)
        ]
        times = [lines[kernel, 0].timing.time_us for lines in sessions.lines.values() if (kernel, 0) in lines]
        effects.append(
            Effect(
                kernel=kernel,
                time_us=round(median(times), 3),
                session_sd_pct=_pct(sessions.spread(kernel)),
                restart_sd_pct=_pct(within(orders)),
                raw_restart_sd_pct=_pct(
                    within([[line.raw_log_ratio for _, line in card] for card in of_cards])
                ),
                doses_pct=doses,
            )
        )
    return effects


def _pct(spread: Variance) -> float:
    """Return the standard deviation of a logarithm, in %."""
    return round(100 * math.sqrt(spread.value), 3)
