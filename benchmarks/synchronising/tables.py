"""Judge the samples, and format the verdicts as Markdown."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from benchmarks.gate_power.samples import Began, SessionSample
from benchmarks.gate_power.session_rule import Sessions, judge
from benchmarks.gate_power.verdicts import FASTER, INCONCLUSIVE, SLOWER
from benchmarks.markdown import provenance, table, us

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.gate_power.samples import Line
    from benchmarks.gate_power.verdicts import Verdicts

STORED = (1, 5)
"""Numbers of sessions in the baselines."""


def report(lines: Sequence[Line]) -> str:
    """Format the table of all callables, and the origin of the samples."""
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
    first = next((line for line in lines if isinstance(line, Began)), None)
    origin = provenance(first.environment, first.date) if first else ""
    cards = len({sample.card for sample in samples})
    return f"{table(titles, rows)}\n{origin}; {len(sessions.lines)} processes on {cards} cards.\n"


def _sessions(stored: int) -> str:
    return f"{stored} session{'' if stored == 1 else 's'}"


def _unchanged(verdicts: Verdicts) -> str:
    """Return `0 of 48`, and how many are inconclusive."""
    unsure = verdicts.found(INCONCLUSIVE)
    also = f", {unsure} inconclusive" if unsure else ""
    return f"{verdicts.found(SLOWER, FASTER)} of {verdicts.count}{also}"


def _regressed(verdicts: Verdicts) -> str:
    return f"{verdicts.found(SLOWER)} of {verdicts.count}"
