"""Judge the samples, and format the verdicts as Markdown."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from benchmarks.gate_power.samples import Began, SessionSample
from benchmarks.gate_power.session_rule import Sessions, judge
from benchmarks.gate_power.verdicts import FASTER, INCONCLUSIVE, SLOWER
from benchmarks.markdown import table, us

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.gate_power.samples import Line
    from benchmarks.gate_power.verdicts import Verdicts

STORED = (1, 5)
"""Numbers of sessions in the baselines."""


def report(lines: Sequence[Line]) -> str:
    """Format the verdicts on all callables, and the origin of the samples."""
    return f"{verdicts(lines)}\n{origin(lines)}"


def verdicts(lines: Sequence[Line]) -> str:
    """Format a row for each callable: its times, and the verdicts on unchanged code and on more work."""
    samples = [line for line in lines if isinstance(line, SessionSample)]
    sessions = Sessions(samples)
    tallies = [judge(sessions, list(sessions.lines), stored, 1) for stored in STORED]
    titles = (
        "callable",
        "kernels, µs",
        "host, µs",
        "spread of kernels, %",
        *(f"unchanged, {_sessions(stored)}" for stored in STORED),
        "5 % more work, µs",
        *(f"regressed, {_sessions(stored)}" for stored in STORED),
    )
    rows = []
    for name in sessions.kernels:
        plain, more = (
            [one.timing for one in sessions.of_kernel(name) if one.permille == dose]
            for dose in sessions.doses
        )
        hosts = sorted(timing.host_us for timing in plain)
        rows.append(
            (
                name,
                us(median(timing.time_us for timing in plain)),
                f"{hosts[0]:.0f} to {hosts[-1]:.0f}",
                f"{100 * sessions.spread(name).value ** 0.5:.2f}",
                *(_unchanged(tally.verdicts(None, name)) for tally in tallies),
                us(median(timing.time_us for timing in more)),
                *(_regressed(tally.verdicts(sessions.doses[-1], name)) for tally in tallies),
            )
        )
    return table(titles, rows)


def origin(lines: Sequence[Line]) -> str:
    """Return where the samples were taken, and how many processes and cards they are of."""
    first = next(line for line in lines if isinstance(line, Began))
    samples = [line for line in lines if isinstance(line, SessionSample)]
    processes, cards = ({getattr(sample, name) for sample in samples} for name in ("process", "card"))
    tools = first.environment.toolchain
    return (
        f"{first.environment.gpu.name}, driver {tools.driver}, torch {tools.torch}, triton {tools.triton}, "
        f"{first.date[:10]}; {len(processes)} fresh processes on {len(cards)} cards.\n"
    )


def _sessions(stored: int) -> str:
    return f"{stored} session{'' if stored == 1 else 's'}"


def _unchanged(found: Verdicts) -> str:
    """Return `0 of 48`, and how many are inconclusive."""
    unsure = found.found(INCONCLUSIVE)
    also = f", {unsure} inconclusive" if unsure else ""
    return f"{found.found(SLOWER, FASTER)} of {found.count}{also}"


def _regressed(found: Verdicts) -> str:
    return f"{found.found(SLOWER)} of {found.count}"
