"""Summarise samples: suspects of the screen, their verdicts when settled, and rules in common use."""

from __future__ import annotations

import math
from statistics import fmean, median
from typing import TYPE_CHECKING

import msgspec

from benchmarks import results_file
from benchmarks.gate_power import restart_rule, rivals, session_rule
from benchmarks.gate_power.kernels import BY_HOST
from benchmarks.gate_power.samples import Began, Failed, RestartSample, SessionSample, SettledSuspect
from benchmarks.gate_power.session_rule import (
    BELOW_CLOCK,
    COLD,
    FULL_CLOCK,
    HOST,
    SHORT,
    SHORT_US,
    WAITS,
    sd_pct,
)
from benchmarks.gate_power.verdicts import Tally, Verdicts
from benchmarks.markdown import model
from pytest_gpuperf.records import Environment
from pytest_gpuperf.statistics.sequential import decide_restarts
from pytest_gpuperf.statistics.thresholds import LOOKS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from benchmarks.gate_power.samples import Line

    Turn = tuple[str, tuple[Tally, Sequence[float]]]
    """Name of a class of times, its verdicts in turn, and the seconds of each."""

SCHEMA = 5
CLASSES = (FULL_CLOCK, SHORT, BELOW_CLOCK, COLD, WAITS, HOST)
STORED = (1, 3, 5)
"""Numbers of sessions of a baseline."""
DRAWS = 2
"""Baselines drawn for each new session, and orders for each series of restarts."""


RESTARTS, SUSPECTS_SETTLED = "restarts of the benchmark", "suspects in runs of the suites"


class Rule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Verdicts of one rule, or suspects of the screen."""

    name: str
    unchanged: Verdicts
    """Verdicts on unchanged code."""
    doses: dict[str, Verdicts]
    """Verdicts on slower code, by the added work in ‰."""
    seconds: float = 0.0
    """Wall-clock seconds on the GPU for one verdict on one test; 0 if they are those of a session."""


class Unchanged(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Verdicts on unchanged code of one kind on the cards of one model."""

    how: str
    gpu: str
    """Short name of the model."""
    cards: list[str]
    """UUIDs."""
    verdicts: Verdicts


class FormerRules(msgspec.Struct, frozen=True):
    """Rules of an earlier commit, by all samples."""

    rules: list[Rule]


class FormerSummary(msgspec.Struct, frozen=True):
    """Summary of the same samples by an earlier commit; other parts are not read."""

    everything: FormerRules


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
    between_cards_pct: float
    """Largest difference of an unchanged kernel between two cards of a model."""
    effects: list[Effect]
    screens: list[Rule]
    """Suspects, by class of times."""
    fresh: list[Rule]
    """Verdicts if three fresh processes settle each suspect, by class of times."""
    in_turn: list[Rule]
    """Verdicts of old and new code in turn, by class of times."""
    others: list[Rule]
    """Verdicts of rules in common use."""
    unchanged: list[Unchanged]
    """Verdicts in turn on unchanged code, by model."""
    failed: list[str]


def read(path: Path) -> Summary:
    """Read the file; see `benchmarks.results_file.read`."""
    return results_file.read(path, Summary, schema=SCHEMA)


def rules_before(path: Path) -> list[Rule]:
    """Read the rules for stored sessions from the summary of the same samples by the gate of fc9efc0.

    `python -m benchmarks.gate_power analyse FILES --out PATH` wrote it in a checkout of that commit.
    """
    found = msgspec.json.decode(path.read_bytes(), type=FormerSummary).everything.rules
    baselines = [rule for rule in found if rule.name.startswith("baseline of ")]
    return [msgspec.structs.replace(rule, name=f"gate of fc9efc0, {rule.name[12:]}") for rule in baselines]


def analyse(lines: Iterable[Line], former: Sequence[Rule] = ()) -> Summary:
    """Summarise samples; the same samples give the same summary.

    Args:
        lines: The samples.
        former: Rules of an earlier commit on the same samples.
    """
    lines = list(lines)
    samples = [line for line in lines if isinstance(line, SessionSample)]
    began = [line for line in lines if isinstance(line, Began)]
    models = _models(lines)
    sessions = session_rule.Sessions(samples, models)
    restarts = restart_rule.Restarts(line for line in lines if isinstance(line, RestartSample))
    turns = [
        *_in_turn(sessions, restarts),
        *_suspects([line for line in lines if isinstance(line, SettledSuspect)]),
    ]
    return Summary(
        schema=SCHEMA,
        date=began[0].date if began else "",
        environment=began[0].environment if began else None,
        commits=list(dict.fromkeys(line.environment.commit for line in began)),
        cards=len({line.card for line in lines if not isinstance(line, Began | Failed)}),
        processes=len(sessions.lines),
        without_clock=len(sessions.without_clock),
        restarts=len(restarts.numbers),
        between_cards_pct=round(_between_cards_pct(sessions), 2),
        effects=_effects(sessions, restarts),
        screens=_screens(sessions),
        fresh=_by_class("", session_rule.judge_fresh(sessions, 1, DRAWS)),
        in_turn=[_rule(name, tally, seconds) for name, (tally, seconds) in turns],
        others=[
            *former,
            *(
                _rule(
                    name,
                    rivals.judge(sessions, DRAWS, rival),
                    [rival.seconds(line) for found in sessions.lines.values() for line in found.values()],
                )
                for name, rival in rivals.RIVALS.items()
                if sessions.lines
            ),
        ],
        unchanged=_unchanged(turns, models),
        failed=[f"{line.what}: {line.why}" for line in lines if isinstance(line, Failed)],
    )


def _models(lines: Sequence[Line]) -> dict[str, str]:
    """Return the short name of the model of each card; one host has cards of one model."""
    found, present = {}, ""
    for line in lines:
        if isinstance(line, Began):
            present = model(line.environment.gpu.name)
            found[line.environment.gpu.uuid] = present
        elif not isinstance(line, Failed):
            found.setdefault(line.card, present)
    return found


def _between_cards_pct(sessions: session_rule.Sessions) -> float:
    found = (
        sessions.screened(process, (other,), kernel, 0, 0)
        for process in sessions.lines
        for other in sessions.of_other_cards(process)
        for kernel in sessions.of(process)
        if kernel not in BY_HOST
    )
    return max((abs(time.decision.change_pct) for time in found if time is not None), default=0.0)


def _screens(sessions: session_rule.Sessions) -> list[Rule]:
    rules = []
    for stored in STORED:
        several = "" if stored == 1 else "s"
        name = f"{stored} session{several} of the card, "
        rules += _by_class(name, session_rule.judge(sessions, stored, DRAWS))
    other = session_rule.judge(sessions, 1, DRAWS, other_card=True)
    return rules + _by_class("1 session of another card, ", other)


def _in_turn(sessions: session_rule.Sessions, restarts: restart_rule.Restarts) -> Iterator[Turn]:
    short = {kernel for kernel in sessions.kernels if sessions.typical_us(kernel) < SHORT_US}
    others = {*restarts.kernels} - short - BY_HOST
    for name, kernels in (("≥ 5 µs", others), (SHORT, short - BY_HOST), (HOST, BY_HOST)):
        tally, seconds = restart_rule.judge(restarts, DRAWS, kernels)
        if tally.verdicts(None).count:
            yield name, (tally, seconds)


def _unchanged(turns: Sequence[Turn], models: Mapping[str, str]) -> list[Unchanged]:
    sampled = Tally.together(tally for name, (tally, _) in turns if name != SUSPECTS_SETTLED)
    settled = [tally for name, (tally, _) in turns if name == SUSPECTS_SETTLED]
    return [
        *by_model(RESTARTS, sampled, models),
        *(one for tally in settled for one in by_model(SUSPECTS_SETTLED, tally, models)),
    ]


def by_model(how: str, tally: Tally, models: Mapping[str, str]) -> list[Unchanged]:
    """Split verdicts on unchanged code by the model of their card."""
    found = []
    for gpu in dict.fromkeys(models.values()):
        cards = [card for card in tally.cards if models[card] == gpu]
        if cards:
            found.append(Unchanged(how=how, gpu=gpu, cards=cards, verdicts=tally.on(cards).verdicts(None)))
    return found


def _suspects(settled: Sequence[SettledSuspect]) -> Iterator[Turn]:
    tally = Tally()
    for one in settled:
        decision = decide_restarts(
            one.log_ratios,
            raw=one.raw_log_ratios,
            new_first=one.new_first,
            final=len(one.log_ratios) == LOOKS[-1],
            by_host=one.mode == "host",
        )
        tally.add(one.test, None, one.card, [decision.outcome.value], one.test)
    if settled:
        yield SUSPECTS_SETTLED, (tally, [one.seconds for one in settled])


def _by_class(prefix: str, tallies: dict[str, Tally]) -> list[Rule]:
    return [_rule(f"{prefix}{name}", tallies[name], [0.0]) for name in CLASSES if name in tallies]


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
                session_sd_pct=round(sessions.spread_pct(kernel), 3),
                restart_sd_pct=round(sd_pct(orders), 3),
                raw_restart_sd_pct=round(
                    sd_pct([[line.raw_log_ratio for _, line in card] for card in of_cards]), 3
                ),
                doses_pct=doses,
            )
        )
    return effects
