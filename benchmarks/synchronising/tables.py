"""Judge the samples, and format the verdicts as Markdown."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from benchmarks.gate_power.samples import Began, SessionSample
from benchmarks.gate_power.session_rule import Sessions, judge
from benchmarks.gate_power.verdicts import FASTER, SLOWER, Tally
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
    tallies = [Tally.together(judge(sessions, stored, 1).values()) for stored in STORED]
    titles = (
        "callable",
        "kernels, µs",
        "spread, %",
        "host, µs",
        "suspects, unchanged",
        "suspects, 5 % more work",
    )
    rows = []
    for name in sessions.kernels:
        timings = [one.timing for one in sessions.of_kernel(name) if not one.permille]
        hosts = sorted(one.single_call.host_us or 0 for one in timings if one.single_call is not None)
        unchanged, more = (
            [tally.verdicts(dose, name) for tally in tallies] for dose in (None, sessions.doses[-1])
        )
        rows.append(
            (
                name,
                us(median(timing.time_us for timing in timings)),
                f"{sessions.spread_pct(name):.2f}",
                f"{hosts[0]:.0f}-{hosts[-1]:.0f}",
                _counts(unchanged, SLOWER, FASTER),
                _counts(more, SLOWER),
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


def _counts(found: Sequence[Verdicts], *outcomes: str) -> str:
    """Return `0, 1/48`: the number of some outcomes with each number of stored sessions."""
    numbers = (str(verdicts.found(*outcomes)) for verdicts in found)
    return f"{', '.join(numbers)}/{found[0].count}"
