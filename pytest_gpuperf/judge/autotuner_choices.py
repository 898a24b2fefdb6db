"""Configurations that autotuners chose, compared with those of the baseline or of old code."""

from __future__ import annotations

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
    """That of the newest session."""


def other_choices(timing: Timing, known: TimeBaseline | AgainstTiming | None) -> list[Choice]:
    """Return the kernels for which an autotuner chose another configuration than any session or old code."""
    found = [known] if isinstance(known, AgainstTiming) else known.sessions if known is not None else ()
    sessions = [session.autotuned for session in found if session.autotuned]
    before = dict(map(_parts, sessions[-1])) if sessions else {}
    stored = {chosen for session in sessions for chosen in session}
    now = [_parts(chosen) for chosen in timing.autotuned if chosen not in stored]
    return [Choice(kernel, config, before[kernel]) for kernel, config in now if kernel in before]


def choice_line(timing: Timing, known: TimeBaseline | AgainstTiming | None) -> str:
    """Return `autotuner chose BLOCK 64; the baseline's BLOCK 128`; empty for the same choice.

    Only what differs is shown, and the time of the new code with the choice of the baseline if it was taken.
    """
    choices = other_choices(timing, known)
    if not choices:
        return ""
    kernel, *configs = choices[0]
    now, before = (dict(_parts(part) for part in config.split(", ")) for config in configs)
    names = [name for name in {**now, **before} if now.get(name) != before.get(name)]
    chosen, baseline = (
        ", ".join(f"{name} {parts.get(name, 'none')}" for name in names) for parts in (now, before)
    )
    of = f" for {kernel}" if len(timing.autotuned) > 1 else ""
    more = f" (and {len(choices) - 1} more)" if len(choices) > 1 else ""
    whose = known.ref if isinstance(known, AgainstTiming) else "the baseline"
    line = f"autotuner chose {chosen}{of}{more}; {whose}'s {baseline}"
    if timing.baseline_choice_us is not None and not isinstance(known, AgainstTiming):
        line += f", with which this code takes {show_value(timing.baseline_choice_us)} µs"
    return line


def _parts(text: str) -> tuple[str, str]:
    """Split `kernel: BLOCK: 64, num_warps: 4` or `BLOCK: 64` at the first colon."""
    name, _, rest = text.partition(": ")
    return name, rest
