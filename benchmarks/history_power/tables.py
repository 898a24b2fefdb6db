"""Format the results as Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.history_power.analysis import HELD_OUT, TUNING, total
from benchmarks.history_power.rules import ASV, OTAVA, OURS, RULES
from benchmarks.history_power.series import LAYOUTS, MEASURED, SCENARIOS, SOON, UNCHANGED
from benchmarks.markdown import table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.history_power.analysis import Figures, Summary, Total

LAYOUT_NAMES = {"pool": "cards at random", "blocks": "card after card"}


def outcomes(summary: Summary, halves: Sequence[int] = (HELD_OUT,)) -> str:
    """Format false alerts, and changes found soon, found at all and the median delay, of each rule."""
    titles = ("", *(_title(summary, rule) for rule in RULES))
    rows = [(f"alerts, {LAYOUT_NAMES[layout]}", *_alerts(summary, halves, layout)) for layout in LAYOUTS]
    rows.append(("per 1,000", *_rates(summary, halves)))
    for scenario in SCENARIOS:
        totals = [total(_of(summary, rule, scenario.name, halves)) for rule in RULES]
        rows.append((scenario.name, *map(_cell, totals)))
    return table(titles, rows)


def layouts(summary: Summary, halves: Sequence[int] = (TUNING, HELD_OUT)) -> str:
    """Format this package's figures by the order of cards."""
    rows = [
        (
            scenario.name,
            *(_cell(total(_of(summary, OURS, scenario.name, halves, layout))) for layout in LAYOUTS),
            f"{100 * total(_of(summary, OURS, scenario.name, halves)).covered:.0f} %",
        )
        for scenario in SCENARIOS
    ]
    return table(("", *LAYOUT_NAMES.values(), "range holds the change"), rows)


def summarised(summary: Summary) -> str:
    """Format the origin of the figures and the main ones in a paragraph."""
    both = (TUNING, HELD_OUT)
    without = total(_of(summary, OURS, UNCHANGED.name, both))
    step = next(scenario.name for scenario in MEASURED if scenario.dose == 10)
    pool, blocks = (total(_of(summary, OURS, step, both, layout)) for layout in LAYOUTS)
    return (
        f"{summary.sessions} sessions, {summary.cards} cards, commit {summary.commit[:7]}, seed "
        f"{summary.seed}. Both halves: {without.false} false alerts in {without.points} points, which repeat "
        f"{sum(summary.measured)} measured ones; a {step} is found within {SOON} commits: "
        f"{100 * pool.soon:.0f} % (cards at random), {100 * blocks.soon:.0f} % (card after card). "
        f"The tuning half chooses p = {summary.tuned:g}; the half held out would choose "
        f"{summary.tuned_swapped:g}.\n"
    )


def tried(summary: Summary) -> str:
    """Format the false alerts and the share found soon with each level, on each half."""
    rows = [
        (f"{each.level:g}", ("tuning", "held out")[each.half], str(each.false), f"{100 * each.soon:.1f} %")
        for each in summary.tried
    ]
    return table(("level", "half", "false alerts", "found soon"), rows)


def report(summary: Summary) -> str:
    """Format all tables."""
    parts = [
        ("", summarised(summary)),
        ("Held out", outcomes(summary)),
        ("Both halves", outcomes(summary, (TUNING, HELD_OUT))),
        ("By the order of cards, both halves", layouts(summary)),
        ("Levels tried", tried(summary)),
    ]
    return "\n".join(f"## {title}\n\n{text}" if title else text for title, text in parts)


def _of(summary: Summary, rule: str, scenario: str, halves: Sequence[int], layout: str = "") -> list[Figures]:
    return [
        each
        for each in summary.figures
        if (each.rule, each.scenario) == (rule, scenario)
        and each.half in halves
        and layout in ("", each.layout)
    ]


def _title(summary: Summary, rule: str) -> str:
    return f"{rule} {summary.versions[rule]}" if rule in (OTAVA, ASV) else rule


def _alerts(summary: Summary, halves: Sequence[int], layout: str) -> list[str]:
    totals = [total(_of(summary, rule, UNCHANGED.name, halves, layout)) for rule in RULES]
    return [f"{each.false}/{each.points}" for each in totals]


def _rates(summary: Summary, halves: Sequence[int]) -> list[str]:
    totals = [total(_of(summary, rule, UNCHANGED.name, halves)) for rule in RULES]
    return [f"{1000 * each.false / max(1, each.points):.1f}" for each in totals]


def _cell(of: Total) -> str:
    """Return `90/95/2`: shares found soon and at all in %, and the median delay."""
    return f"{100 * of.soon:.0f}/{100 * of.found:.0f}/{f'{of.delay:g}' if of.found else '-'}"
