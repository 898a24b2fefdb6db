"""Configurations that autotuners chose, compared with those of the baseline or of old code."""

from __future__ import annotations

from itertools import cycle, islice
from typing import TYPE_CHECKING, NamedTuple

from pytest_gpuperf.records import AgainstTiming
from pytest_gpuperf.records.change import show_value

if TYPE_CHECKING:
    from pytest_gpuperf.records import Timing
    from pytest_gpuperf.records.baseline import TimeBaseline


class Choice(NamedTuple):
    """The configuration of a kernel that no session of the baseline has."""

    kernel: str
    now: str
    before: str
    """One of the newest session."""
    is_only: bool
    """True if the newest session has no other one of that kernel."""


def other_choices(timing: Timing, known: TimeBaseline | AgainstTiming | None) -> list[Choice]:
    """Return the kernels for which an autotuner chose another configuration than any session or old code."""
    found = [known] if isinstance(known, AgainstTiming) else known.sessions if known is not None else ()
    sessions = [session.autotuned for session in found if session.autotuned]
    newest = [_parts(chosen) for chosen in (sessions or [()])[-1]]
    names = [kernel for kernel, _ in newest]
    # A kernel chooses for each key. What another key still has was not replaced, unless there was no other.
    now = timing.autotuning.chosen
    gone = [one for one in newest if ": ".join(one) not in now or names.count(one[0]) == 1]
    replaced = {name: cycle([config for kernel, config in gone if kernel == name]) for name in names}
    return [
        Choice(kernel, config, before, names.count(kernel) == 1)
        for kernel, config in map(_parts, sorted(set(now).difference(*sessions)))
        for before in islice(replaced.get(kernel, ()), 1)
    ]


def choice_lines(timing: Timing, known: TimeBaseline | AgainstTiming | None) -> list[str]:
    """Return `autotuner chose BLOCK 64; the baseline's BLOCK 128` for each; nothing for the same choices.

    Only what differs is shown, and the time of the new code with the choices of the baseline if it was taken.
    """
    whose = known.ref if isinstance(known, AgainstTiming) else "the baseline"
    lines = []
    for kernel, *configs, _ in other_choices(timing, known):
        now, before = (dict(_parts(part) for part in config.split(", ")) for config in configs)
        names = [name for name in {**now, **before} if now.get(name) != before.get(name)]
        chosen, baseline = (
            ", ".join(f"{name} {parts.get(name, 'none')}" for name in names) for parts in (now, before)
        )
        of = f" for {kernel}" if len(timing.autotuning.chosen) > 1 else ""
        lines.append(f"autotuner chose {chosen}{of}; {whose}'s {baseline}")
    if lines and timing.autotuning.baseline_choice_us is not None and not isinstance(known, AgainstTiming):
        lines[0] += f", with which this code takes {show_value(timing.autotuning.baseline_choice_us)} µs"
    return lines


def _parts(text: str) -> tuple[str, str]:
    """Split `kernel: BLOCK: 64, num_warps: 4` or `BLOCK: 64` at the first colon."""
    name, _, rest = text.partition(": ")
    return name, rest
