"""Format a summary as Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.gate_power import unchanged
from benchmarks.gate_power.analysis import SUSPECTS_SETTLED
from benchmarks.gate_power.kernels import IN_STEPS, POWER_LIMITED
from benchmarks.gate_power.session_rule import FULL_CLOCK, HOST, SHORT
from benchmarks.gate_power.verdicts import FASTER, INCONCLUSIVE, SLOWER, Verdicts
from benchmarks.markdown import provenance, table, us

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.gate_power.analysis import Rule, Summary
    from benchmarks.settling import Part

TARGETS = {"10": 0.9, "20": 0.98, "50": 0.995}
"""Target share of slowdowns that fail with one session of the card at full clock, by the added work in ‰."""
TESTS = 100
SUSPECTS = 0.04
"""Largest share of unchanged tests that may be suspects there."""


def effects(summary: Summary) -> str:
    """Format the effect of the doses on the times."""
    doses = list(dict.fromkeys(dose for each in summary.effects for dose in each.doses_pct))
    titles = (
        "kernel",
        "time µs",
        "spread between sessions %",
        "between restarts, as measured %",
        "as compared %",
        *(f"{_pct(dose)} more work" for dose in doses),
    )
    rows = [
        (
            each.kernel,
            us(each.time_us),
            f"{each.session_sd_pct:.2f}",
            f"{each.raw_restart_sd_pct:.2f}",
            f"{each.restart_sd_pct:.2f}",
            *(f"{each.doses_pct[dose]:+.2f} %" if dose in each.doses_pct else "—" for dose in doses),
        )
        for each in summary.effects
    ]
    return table(titles, rows)


def detection(summary: Summary) -> str:
    """Format the shares that fail end to end, and the cost of unchanged code, by baseline and times.

    Several sessions are shown for the main class of times only.
    Shares are in %, with 95 % bounds by card in brackets: those of the screen, times the share in turn.
    """
    doses = [dose for dose in _doses(summary.screens) if dose in ("5", *TARGETS)]
    titles = (
        "sessions",
        "card",
        "time",
        *(f"+{_pct(dose)} fails" for dose in doses),
        f"suspects of {TESTS} unchanged",
        "s for them",
        "wrongly red, at most, of 10/100/1,000",
    )
    rows = []
    for rule in summary.screens:
        if not (rule.name.startswith("1 ") or rule.name.endswith(FULL_CLOCK)):
            continue
        turn = _turn_of(rule, summary)
        baseline, _, times = rule.name.partition(", ")
        card = "another" if "another" in baseline else "the same"
        rows.append(
            (
                baseline.split()[0],
                card,
                times,
                *(_fails(rule, turn, dose) for dose in doses),
                *_cost(rule, turn),
            )
        )
    return table(titles, rows)


def headline(summary: Summary, live: Sequence[Part] = ()) -> str:
    """Say in two sentences how much one stored session finds, and how many verdicts were wrong."""
    screen = summary.screens[0]
    share = _both(screen, _turn_of(screen, summary), "10")
    assert share is not None
    return (
        "The baseline only screens; times outside are settled by old and new code in turn. With one session "
        f"of the card a slowdown of 1 % fails in {100 * share:.0f} % of the cases at full clock from 5 µs "
        f"on, however many tests there are. {unchanged.wrong(unchanged.count(summary, live))}\n"
    )


def settled(summary: Summary) -> str:
    """Format the verdicts in turn, by fresh processes and by rules in common use, with shares in %."""
    rules = [
        *((f"in turn, {rule.name}", rule) for rule in summary.in_turn),
        *((f"fresh processes, {rule.name}", rule) for rule in summary.fresh),
        *((rule.name, rule) for rule in summary.others),
    ]
    doses = _doses([rule for _, rule in rules])
    titles = (
        "rule",
        "unchanged: verdicts",
        "slower",
        "at most, by process",
        "by card",
        "faster",
        "not decided",
        *(f"+{_pct(dose)}" for dose in doses),
        "s a test",
    )
    rows = [
        (
            name,
            str(rule.unchanged.count),
            str(rule.unchanged.found(SLOWER)),
            f"{100 * rule.unchanged.by_process[1]:.1f}" if rule.unchanged.by_process else "—",
            f"{100 * rule.unchanged.bounds_by_card()[1]:.1f}" if rule.unchanged.on_cards else "—",
            str(rule.unchanged.found(FASTER)),
            _share(rule.unchanged, INCONCLUSIVE),
            *(_share(rule.doses.get(dose), SLOWER) for dose in doses),
            f"{rule.seconds:.2g}" if rule.seconds else "—",
        )
        for name, rule in rules
    ]
    return table(titles, rows)


def summarised(summary: Summary) -> str:
    """Summarise the benchmark in one paragraph."""
    cards = "1 card" if summary.cards == 1 else f"{summary.cards} cards"
    later = summary.commits[1:]
    origin = provenance(summary.environment, summary.date)
    origin += f", later samples by {len(later)} commits up to {later[-1][:7]}" if later else ""
    suspects = sum(rule.unchanged.count for rule in summary.in_turn if rule.name == SUSPECTS_SETTLED)
    settled_ones = f", with {suspects} suspects of runs of the suites," if suspects else ""
    what = f"{summary.processes} sessions and {summary.restarts} restarts{settled_ones}"
    parts = [f"{origin}; {what} on {cards}."]
    if summary.screens and summary.in_turn:
        screen, turn = summary.screens[0], summary.in_turn[0]
        fails = [
            f"+{_pct(dose)} in {100 * target:g} % ({_met(share >= target)})"
            for dose, target in TARGETS.items()
            if (share := _both(screen, turn, dose)) is not None
        ]
        met = _met(screen.unchanged.drawn_share(SLOWER, FASTER) <= SUSPECTS)
        parts += [
            f"Targets with {screen.name}: fail {', '.join(fails)}; suspects at most {100 * SUSPECTS:g} % "
            f"({met}).",
        ]
    if summary.between_cards_pct:
        parts.append(f"Cards of a model differ by up to {summary.between_cards_pct:.1f} %.")
    if summary.without_clock:
        counted = [kernel for kernel in POWER_LIMITED if kernel not in IN_STEPS]
        parts.append(
            f"Not counted: {' and '.join(counted)} in {summary.without_clock} sessions whose budget was too "
            "small for a clock model."
        )
    if summary.failed:
        parts.append(f"{len(summary.failed)} measurements failed or were cut short.")
    return " ".join(parts) + "\n"


def report(summary: Summary) -> str:
    """Format all tables."""
    parts = [
        ("", summarised(summary)),
        ("What fails", detection(summary)),
        ("Unchanged code", unchanged.report(summary)),
        ("Settled", settled(summary)),
        ("Effect of each dose on the time", effects(summary)),
        ("Failed", "".join(f"- {each}\n" for each in summary.failed)),
    ]
    return "\n".join(f"## {title}\n\n{text}" if title else text for title, text in parts if text)


def _turn_of(screen: Rule, summary: Summary) -> Rule | None:
    """Return the verdicts in turn for a class of times; None if there are none."""
    name = next((each for each in (SHORT, HOST) if screen.name.endswith(each)), "≥ 5 µs")
    return next((rule for rule in summary.in_turn if rule.name == name), None)


def _fails(screen: Rule, turn: Rule | None, dose: str) -> str:
    share = _both(screen, turn, dose)
    if share is None or turn is None:
        return "—"
    in_turn = turn.doses[dose].drawn_share(SLOWER)
    low, high = (100 * in_turn * bound for bound in screen.doses[dose].bounds_by_card())
    return f"{100 * share:.1f} ({low:.0f}-{high:.0f})"


def _cost(screen: Rule, turn: Rule | None) -> tuple[str, str, str]:
    """Return the suspects among unchanged tests, their seconds, and the chance of a wrongly red run."""
    if turn is None or not (screen.unchanged.by_process and turn.unchanged.by_process):
        return "—", "—", "—"
    share = screen.unchanged.drawn_share(SLOWER, FASTER)
    suspects = TESTS * share
    # The share sent on as slower, times the largest share that is wrongly slower in turn.
    wrong = screen.unchanged.by_process[1] * turn.unchanged.by_process[1]
    shares = (100 * (1 - (1 - wrong) ** tests) for tests in (10, 100, 1000))
    red = "/".join(f"{share:.2g}" if share < 99.5 else "100" for share in shares)
    return f"{suspects:.1f}", f"{suspects * turn.seconds:.0f}", red


def _both(screen: Rule, turn: Rule | None, dose: str) -> float | None:
    """Return the share of a dose that is a suspect, and slower in turn; None if not measured."""
    if turn is None or dose not in screen.doses or dose not in turn.doses:
        return None
    return screen.doses[dose].drawn_share(SLOWER) * turn.doses[dose].drawn_share(SLOWER)


def _met(met: bool) -> str:
    return "met" if met else "missed"


def _doses(rules: Sequence[Rule]) -> Sequence[str]:
    return sorted({dose for rule in rules for dose in rule.doses}, key=int)


def _pct(dose: str) -> str:
    return f"{int(dose) / 10:g} %"


def _share(verdicts: Verdicts | None, *outcomes: str) -> str:
    if verdicts is None or not verdicts.count:
        return "—"
    return f"{100 * verdicts.drawn_share(*outcomes):.1f}"
