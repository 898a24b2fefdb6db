"""Count the verdicts on unchanged code, and the wrong ones, by model and number of cards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.gate_power.analysis import RESTARTS, by_model
from benchmarks.gate_power.verdicts import FASTER, INCONCLUSIVE, PASS, SLOWER, Tally
from benchmarks.markdown import model, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.gate_power.analysis import Summary, Unchanged
    from benchmarks.settling import Part

VERDICTS, MODELS, CARDS, FORCED = 1000, 2, 6, 300
"""Target number of verdicts without a wrong one, of models, of cards, and of verdicts in turn by runs."""
USUAL, IN_TURN = "runs in fresh checkouts", "runs in fresh checkouts, all in turn"


def count(summary: Summary, live: Sequence[Part]) -> list[Unchanged]:
    """Return the verdicts on unchanged code of the samples and of runs in fresh checkouts."""
    models = {part.environment.gpu.uuid: model(part.environment.gpu.name) for part in live}
    tallies = {IN_TURN: Tally(), USUAL: Tally()}
    for part in live:
        for case in part.cases:
            how = USUAL if case.change == "+0 %" else IN_TURN
            if how == USUAL or case.change.startswith("unchanged"):
                # Labels of a test share its processes.
                process = f"{part.date} {case.session_s} {case.test.partition(' (')[0]}"
                outcome = PASS if case.verdict == "new" else case.verdict
                tallies[how].add(case.test, None, part.environment.gpu.uuid, [outcome], process)
    return [
        *summary.unchanged,
        *(one for how, tally in tallies.items() for one in by_model(how, tally, models)),
    ]


def wrong(counted: Sequence[Unchanged]) -> str:
    """Say in one sentence how many verdicts on unchanged code are wrong, and how many are not decided."""
    red, improved = (sum(one.verdicts.found(name) for one in counted) for name in (SLOWER, FASTER))
    decided, runs = _decided(counted), _decided(by_runs(counted))
    others = sum(one.verdicts.count for one in counted) - decided
    return (
        f"Unchanged code was red in {red} and `improved` in {improved} of {decided:,} verdicts, {runs:,} of "
        f"them by runs of pytest, on {len(_cards(counted))} cards ({' and '.join(_models(counted))}); not "
        f"decided in {others:,} more."
    )


def by_runs(counted: Sequence[Unchanged]) -> list[Unchanged]:
    """Return the verdicts by runs of pytest: restarts of the benchmark are none."""
    return [one for one in counted if one.how != RESTARTS]


def _decided(counted: Sequence[Unchanged]) -> int:
    return sum(one.verdicts.count - one.verdicts.found(INCONCLUSIVE) for one in counted)


def _cards(counted: Sequence[Unchanged]) -> set[str]:
    return {card for one in counted for card in one.cards}


def _models(counted: Sequence[Unchanged]) -> list[str]:
    return sorted({one.gpu for one in counted})


def rows(summary: Summary, live: Sequence[Part] = ()) -> str:
    """Format the number of verdicts on unchanged code by model, and of wrong ones, with bounds in %."""
    titles = (
        "verdicts on unchanged code",
        "GPU",
        "cards",
        "count",
        "red",
        "at most, by process",
        "by card",
        "improved",
        "not decided",
    )
    lines = []
    for one in count(summary, live):
        verdicts = one.verdicts
        assert verdicts.by_process is not None
        lines.append(
            (
                one.how,
                one.gpu,
                str(len(one.cards)),
                str(verdicts.count),
                str(verdicts.found(SLOWER)),
                f"{100 * verdicts.by_process[1]:.1f}",
                f"{100 * verdicts.bounds_by_card()[1]:.1f}",
                str(verdicts.found(FASTER)),
                str(verdicts.found(INCONCLUSIVE)),
            )
        )
    return table(titles, lines)


def target(summary: Summary, live: Sequence[Part] = ()) -> str:
    """Say how many decided verdicts there are, and how many of the wanted ones are missing."""
    counted = count(summary, live)
    runs = by_runs(counted)
    turns = [one for one in runs if one.how != USUAL]
    in_turn = _of(_decided(turns), FORCED, "in turn")
    return f"Targets: {_wanted(counted)}. By runs of pytest alone: {_wanted(runs)}, {in_turn}.\n"


def _wanted(counted: Sequence[Unchanged]) -> str:
    sizes = [
        _of(_decided(counted), VERDICTS, "verdicts"),
        _of(len(_models(counted)), MODELS, "models"),
        _of(len(_cards(counted)), CARDS, "cards"),
    ]
    return ", ".join(sizes)


def _of(found: int, wanted: int, name: str) -> str:
    short = "met" if found >= wanted else f"{wanted - found:,} short"
    return f"{found:,} of {wanted:,} {name} ({short})"


def report(summary: Summary) -> str:
    """Format the facts that only samples have."""
    return rows(summary) + target(summary) if summary.unchanged else ""
