"""Format a summary as Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.gate_power.analysis import AGAINST, SHORT_US, STORED, baseline_name
from benchmarks.gate_power.kernels import IN_STEPS, POWER_LIMITED
from benchmarks.gate_power.verdicts import FASTER, INCONCLUSIVE, SLOWER, Verdicts
from benchmarks.markdown import provenance, table, us

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from benchmarks.gate_power.analysis import Figures, Rule, Summary

STORED_TARGETS = {"10": 0.9, "20": 0.99}
AGAINST_TARGETS = {"5": 0.9, "10": 0.99}
"""Target share of slowdowns found, by the added work in ‰."""
LEAST_UNCHANGED = 1000


def effects(summary: Summary) -> str:
    """Format the effect of the doses on the times."""
    doses = _doses(summary.held_out)
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


def outcomes(figures: Figures) -> str:
    """Format verdicts on unchanged code and on slower code, a row for each rule, with shares in %."""
    doses = _doses(figures)
    titles = (
        "rule",
        "unchanged code: verdicts",
        "slower",
        "95 % bound",
        "faster",
        "inconclusive",
        *(f"{_pct(dose)} more work" for dose in doses),
        "not passed, 1 %",
        "s a test",
    )
    rows = [
        (
            rule.name,
            str(rule.unchanged.count),
            str(rule.unchanged.found(SLOWER)),
            f"≤ {100 * rule.unchanged.bounds(SLOWER)[1]:.1f}",
            str(rule.unchanged.found(FASTER)),
            _percent(rule.unchanged, INCONCLUSIVE),
            *(_bounded(rule.doses[dose], SLOWER) if dose in rule.doses else "—" for dose in doses),
            _percent(rule.doses["10"], SLOWER, INCONCLUSIVE) if "10" in rule.doses else "—",
            f"{rule.seconds:.2g}",
        )
        for rule in figures.rules
    ]
    return table(titles, [(name, *(cell.replace(" %", "") for cell in cells)) for name, *cells in rows])


def by_kernel(figures: Figures) -> str:
    """Format the slowdowns found of each kernel by the plugin's rules."""
    rules = _ours(figures)
    doses = _doses(figures)
    titles = ("kernel", *(f"{rule.name}, {_pct(dose)}" for rule in rules for dose in doses))
    kernels = dict.fromkeys(kernel for rule in rules for kernel in rule.kernels)
    rows = [
        (
            kernel,
            *(
                _fraction(rule.kernels[kernel][dose]) if dose in rule.kernels.get(kernel, {}) else "—"
                for rule in rules
                for dose in doses
            ),
        )
        for kernel in kernels
    ]
    return table(titles, rows)


def _later(commits: Sequence[str]) -> str:
    later = commits[1:]
    return f", later samples by {len(later)} commits up to {later[-1][:7]}" if later else ""


def summarised(summary: Summary) -> str:
    """Summarise the benchmark in one paragraph."""
    figures = summary.held_out
    cards = "1 card" if summary.cards == 1 else f"{summary.cards} cards"
    parts = [
        f"{provenance(summary.environment, summary.date)}{_later(summary.commits)}; "
        f"{summary.processes} sessions and {summary.restarts} restarts on {cards}, of which "
        f"{figures.processes} and {figures.restarts} are held out and judged."
    ]
    for of, label in ((figures, "held out"), (summary.everything, "all samples")):
        ours = _ours(of)
        verdicts = sum(rule.unchanged.count for rule in ours)
        alarms = sum(rule.unchanged.found(SLOWER) for rule in ours)
        faster = sum(rule.unchanged.found(FASTER) for rule in ours)
        few = "" if verdicts >= LEAST_UNCHANGED else f", fewer than {LEAST_UNCHANGED}"
        names = f" ({' and '.join(rule.name for rule in ours)})" if of is figures else ""
        bounds = " and ".join(f"≤ {100 * rule.unchanged.bounds(SLOWER)[1]:.1f} %" for rule in ours)
        parts.append(
            f"Unchanged code, {label}{names}: {alarms} false alarm{'' if alarms == 1 else 's'} in "
            f"{verdicts} verdicts{few} (95 % bounds: {bounds}), {faster} called faster."
        )
    parts.extend(_of_newest(summary))
    parts.extend(_of_short(summary))
    if summary.without_clock:
        counted = [kernel for kernel in POWER_LIMITED if kernel not in IN_STEPS]
        parts.append(
            f"Not counted: {' and '.join(counted)} in {summary.without_clock} sessions whose budget "
            f"was too small for a clock model. {_alarms_of_limited(summary)}"
        )
    if summary.failed:
        parts.append(f"{len(summary.failed)} measurements failed or were cut short.")
    return " ".join(parts) + "\n"


def tuned(summary: Summary) -> str:
    """Format the results of all thresholds tried, on each half."""
    titles = (
        "thresholds",
        *(f"{half}: {what}" for half in ("tuning", "held out") for what in ("false", "found")),
    )
    rows = [
        (
            ", ".join(f"`{name}` {value:g}" for name, value in each.thresholds.items()),
            *(
                cell
                for score in (each.tuning, each.held_out)
                for cell in (str(score.false_alarms), f"{100 * score.found:.1f} %")
            ),
        )
        for each in summary.tried
    ]
    return table(titles, rows)


def report(summary: Summary) -> str:
    """Format all tables."""
    parts = [
        ("", summarised(summary)),
        ("Effect of each dose on the time", effects(summary)),
        ("Held out", outcomes(summary.held_out)),
        ("Slowdowns found by kernel, held out", by_kernel(summary.held_out)),
        ("Thresholds tried", tuned(summary)),
        (
            "Thresholds tuned on the other half",
            f"It {_would_change(summary, summary.tuned)}{_alarms_then(summary)}.\n",
        ),
        ("Thresholds tuned on this half", f"It {_would_change(summary, summary.tuned_swapped)}.\n"),
        ("Held out, thresholds as tuned on the other half", outcomes(summary.held_out_tuned)),
        ("All samples", outcomes(summary.everything)),
        ("Power-limited kernels without a clock model", outcomes(summary.whatever_clock)),
        ("Failed", "".join(f"- {each}\n" for each in summary.failed)),
    ]
    return "\n".join(f"## {title}\n\n{text}" if title else text for title, text in parts if text)


def _ours(figures: Figures) -> list[Rule]:
    """Return the plugin's rules: the largest baseline, and old code against new code."""
    found = {rule.name: rule for rule in figures.rules}
    largest = [found[baseline_name(stored)] for stored in STORED if baseline_name(stored) in found][-1:]
    return [*largest, *(found[name] for name in (AGAINST,) if name in found)]


def _of_newest(summary: Summary) -> Iterator[str]:
    for model, rule in summary.newest.items():
        shares = [_share_found(rule, dose, target) for dose, target in STORED_TARGETS.items()]
        yield f"Newest sessions, {model}, {rule.name}: {', '.join(shares)}."
    for model, rule in summary.newest_against.items():
        shares = [_share_found(rule, dose, target) for dose, target in AGAINST_TARGETS.items()]
        yield f"Newest restarts, {model}, {rule.name}: {', '.join(shares)}."


def _share_found(rule: Rule, dose: str, target: float) -> str:
    """Return `91 % (84-96) of 102 slowdowns of 1 % (target 90 % met)`."""
    found = rule.doses.get(dose, Verdicts())
    if not found.count:
        return f"none with {_pct(dose)}"
    met = "met" if found.found(SLOWER) >= target * found.count else "missed"
    shown = f"{_bounded(found, SLOWER)} of {found.count} slowdowns of {_pct(dose)}"
    return f"{shown} (target {100 * target:.0f} % {met})"


def _of_short(summary: Summary) -> Iterator[str]:
    for rule in _ours(summary.held_out)[:1]:
        for effect in summary.effects:
            found = rule.kernels.get(effect.kernel, {})
            if effect.time_us < SHORT_US and found:
                shares = [f"{_percent(found[dose], SLOWER)} of {_pct(dose)}" for dose in STORED_TARGETS]
                yield f"Below {SHORT_US:g} µs ({effect.kernel}): {', '.join(shares)}."


def _alarms_of_limited(summary: Summary) -> str:
    *_, largest = summary.whatever_clock.rules
    alarms = f"{largest.unchanged.found(SLOWER)} of {largest.unchanged.count}"
    found = f" and detects {_bounded(largest.doses['20'], SLOWER)} of 2 %" if "20" in largest.doses else ""
    return f"There a {largest.name} has {alarms} false alarms{found}."


def _would_change(summary: Summary, chosen: Mapping[str, float]) -> str:
    changes = [
        f"{name} {value:g} → {chosen[name]:g}"
        for name, value in summary.shipped.items()
        if value != chosen[name]
    ]
    return f"would change {', '.join(changes)}" if changes else "leaves the thresholds as they are"


def _alarms_then(summary: Summary) -> str:
    """Return the effect of changed thresholds on the false alarms of the other half."""
    if summary.tuned == summary.shipped:
        return ""
    rules = summary.held_out_tuned.rules
    now = {rule.name: rule.unchanged.found(SLOWER) for rule in summary.held_out.rules}
    then = sum(rule.unchanged.found(SLOWER) for rule in rules)
    verdicts = sum(rule.unchanged.count for rule in rules)
    before = sum(now[rule.name] for rule in rules)
    return f" (false alarms of all these rules, held out: {before} → {then} of {verdicts})"


def _doses(figures: Figures) -> Sequence[str]:
    return sorted({dose for rule in figures.rules for dose in rule.doses}, key=int)


def _pct(dose: str) -> str:
    return f"{int(dose) / 10:g} %"


def _percent(verdicts: Verdicts, *outcomes: str) -> str:
    return f"{100 * verdicts.found(*outcomes) / max(1, verdicts.count):.0f} %"


def _fraction(verdicts: Verdicts) -> str:
    return f"{verdicts.found(SLOWER)}/{verdicts.count}"


def _bounded(verdicts: Verdicts, *outcomes: str) -> str:
    low, high = verdicts.bounds(*outcomes)
    return f"{_percent(verdicts, *outcomes)} ({100 * low:.0f}-{100 * high:.0f})"
