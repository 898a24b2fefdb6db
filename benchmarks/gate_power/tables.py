"""A summary as Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.gate_power.analysis import PAIRED, STORED, screen_name
from benchmarks.gate_power.kernels import POWER_LIMITED
from benchmarks.gate_power.verdicts import FASTER, INCONCLUSIVE, PASS, SLOWER
from benchmarks.markdown import provenance, table, us

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks.gate_power.analysis import Figures, Rule, Summary
    from benchmarks.gate_power.verdicts import Verdicts

TARGETS = {"10": 0.9, "20": 0.99, "50": 1.0}
"""Share to be found, by per mille of more work."""
LEAST_UNCHANGED = 300


def effects(summary: Summary) -> str:
    """What the doses do to the times."""
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


def unchanged(figures: Figures) -> str:
    """False alarms."""
    titles = (
        "rule",
        "verdicts",
        "slower",
        "95 % bound",
        "faster",
        "inconclusive",
        "pass",
        "slower, all draws",
    )
    rows = []
    for rule in figures.rules:
        verdicts = rule.unchanged
        rows.append(
            (
                rule.name,
                str(verdicts.count),
                str(verdicts.found(SLOWER)),
                f"≤ {100 * verdicts.bounds(SLOWER)[1]:.1f} %",
                str(verdicts.found(FASTER)),
                _percent(verdicts, INCONCLUSIVE),
                _percent(verdicts, PASS),
                f"{verdicts.drawn.get(SLOWER, 0)} of {sum(verdicts.drawn.values())}",
            )
        )
    return table(titles, rows)


def found(figures: Figures) -> str:
    """Slowdowns found."""
    doses = _doses(figures)
    titles = ("rule", *(f"{_pct(dose)} more work" for dose in doses), "not passed, 1 %", "s a test")
    rows = [
        (
            rule.name,
            *(_bounded(rule.doses[dose], SLOWER) if dose in rule.doses else "—" for dose in doses),
            _percent(rule.doses["10"], SLOWER, INCONCLUSIVE) if "10" in rule.doses else "—",
            f"{rule.seconds:.2g}",
        )
        for rule in figures.rules
    ]
    return table(titles, rows)


def by_kernel(figures: Figures) -> str:
    """Slowdowns found of each kernel, by the screen with most sessions and by the paired mode."""
    rules = [rule for rule in (_largest_screen(figures), _named(figures, PAIRED)) if rule is not None]
    doses = _doses(figures)
    titles = ("kernel", *(f"{_short(rule)}, {_pct(dose)}" for rule in rules for dose in doses))
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
    return (
        f", later samples by commit {', '.join(commit[:7] for commit in commits[1:])}" if commits[1:] else ""
    )


def summarised(summary: Summary) -> str:
    """What it comes to, in one paragraph."""
    figures = summary.held_out
    cards = "1 card" if summary.cards == 1 else f"{summary.cards} cards"
    parts = [
        f"{provenance(summary.environment, summary.date)}{_later(summary.commits)}; "
        f"{summary.processes} sessions and "
        f"{summary.restarts} paired restarts on {cards}, of which {figures.processes} and {figures.restarts} "
        "are held out."
    ]
    for of, label in ((figures, "held out"), (summary.everything, "all")):
        ours = [rule for rule in (_largest_screen(of), _named(of, PAIRED)) if rule is not None]
        verdicts = sum(rule.unchanged.count for rule in ours)
        alarms = sum(rule.unchanged.found(SLOWER) for rule in ours)
        few = "" if verdicts >= LEAST_UNCHANGED else f", fewer than {LEAST_UNCHANGED}"
        names = " and ".join(_short(rule) for rule in ours)
        parts.append(f"Unchanged code, {label} ({names}): {alarms} false alarms in {verdicts} verdicts{few}.")
    parts.extend(
        f"{_short(rule).capitalize()}: {_against_targets(rule)}."
        for rule in (_largest_screen(figures), _named(figures, PAIRED))
        if rule is not None
    )
    parts.append(f"Tuning on the other half {_would_change(summary, summary.tuned)}{_alarms_then(summary)}.")
    parts.append(f"Tuning on the half that is held out {_would_change(summary, summary.tuned_swapped)}.")
    if summary.without_clock:
        parts.append(
            f"Not counted: {' and '.join(POWER_LIMITED)} in {summary.without_clock} sessions, in whose "
            f"budget it was not found out how it hangs on the clock. {_alarms_of_limited(summary)}"
        )
    if summary.failed:
        parts.append(f"{len(summary.failed)} measurements failed or were cut short.")
    return " ".join(parts) + "\n"


def tuned(summary: Summary) -> str:
    """Every choice of thresholds that was tried, on each half."""
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
    """Everything."""
    parts = [
        ("", summarised(summary)),
        ("What a dose does to the time", effects(summary)),
        ("Unchanged code, held out", unchanged(summary.held_out)),
        ("Slower code, held out", found(summary.held_out)),
        ("By kernel, held out", by_kernel(summary.held_out)),
        ("Thresholds that were tried", tuned(summary)),
        (
            "Unchanged code, held out, thresholds as tuned on the other half",
            unchanged(summary.held_out_tuned),
        ),
        ("Slower code, held out, thresholds as tuned on the other half", found(summary.held_out_tuned)),
        ("Unchanged code, all sessions", unchanged(summary.everything)),
        ("Slower code, all sessions", found(summary.everything)),
        ("Power-limited kernels at whatever clock, unchanged code", unchanged(summary.whatever_clock)),
        ("Power-limited kernels at whatever clock, slower code", found(summary.whatever_clock)),
        ("Failed", "".join(f"- {each}\n" for each in summary.failed)),
    ]
    return "\n".join(f"## {title}\n\n{text}" if title else text for title, text in parts if text)


def _against_targets(rule: Rule) -> str:
    parts = []
    for dose, share in TARGETS.items():
        if dose not in rule.doses:
            continue
        verdicts = rule.doses[dose]
        rate = verdicts.found(SLOWER) / max(1, verdicts.count)
        met = "" if rate >= share else f" (the target is {100 * share:.0f} %)"
        parts.append(f"{_bounded(verdicts, SLOWER)} of slowdowns of {_pct(dose)} found{met}")
    return ", ".join([*parts, f"{rule.seconds:.2g} s of GPU a test"])


def _alarms_of_limited(summary: Summary) -> str:
    alarms = (
        f"{rule.unchanged.found(SLOWER)} in {rule.unchanged.count} with {rule.name.rpartition(', ')[2]}"
        for rule in summary.whatever_clock.rules
    )
    return f"Of its verdicts in all sessions, false alarms: {', '.join(alarms)}."


def _would_change(summary: Summary, chosen: Mapping[str, float]) -> str:
    changes = [
        f"{name} {value:g} → {chosen[name]:g}"
        for name, value in summary.shipped.items()
        if value != chosen[name]
    ]
    return f"would change {', '.join(changes)}" if changes else "leaves the thresholds as they are"


def _alarms_then(summary: Summary) -> str:
    """What changed thresholds do to the false alarms of the half that did not choose them."""
    if summary.tuned == summary.shipped:
        return ""
    rules = summary.held_out_tuned.rules
    now = {rule.name: rule.unchanged.found(SLOWER) for rule in summary.held_out.rules}
    then = sum(rule.unchanged.found(SLOWER) for rule in rules)
    verdicts = sum(rule.unchanged.count for rule in rules)
    before = sum(now[rule.name] for rule in rules)
    return f" (false alarms of screen and paired, held out: {before} → {then} of {verdicts})"


def _largest_screen(figures: Figures) -> Rule | None:
    found = [_named(figures, screen_name(stored)) for stored in STORED]
    return next((rule for rule in reversed(found) if rule is not None), None)


def _named(figures: Figures, name: str) -> Rule | None:
    return next((rule for rule in figures.rules if rule.name == name), None)


def _short(rule: Rule) -> str:
    return rule.name.replace("stored screen, ", "screen with ")


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
    return f"{_percent(verdicts, *outcomes)} ({100 * low:.0f} to {100 * high:.0f})"
