"""Rules in common use, on the same kernels in the same processes. Each compares with one stored session."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.gate_power.kernels import IN_STEPS
from benchmarks.gate_power.session_rule import draws
from benchmarks.gate_power.verdicts import PASS, SLOWER, Tally

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks.gate_power.samples import SessionSample
    from benchmarks.gate_power.session_rule import Sessions

LIMIT_PCT = 5.0
SIGNIFICANT = 0.05


def median_exceeds(new: SessionSample, stored: Sequence[SessionSample]) -> list[bool]:
    """Return where the median of launches is over 5 % longer, as by `--benchmark-compare-fail=median:5%`."""
    limit = median(new.launches_us) / (1 + LIMIT_PCT / 100)
    return [median(each.launches_us) < limit for each in stored]


def do_bench_exceeds(new: SessionSample, stored: Sequence[SessionSample]) -> list[bool]:
    """Return where the median of `triton.testing.do_bench` is over 5 % longer."""
    limit = new.do_bench_us / (1 + LIMIT_PCT / 100)
    return [each.do_bench_us < limit for each in stored]


def launches_differ(new: SessionSample, stored: Sequence[SessionSample]) -> list[bool]:
    """Return where launches are longer by the Mann-Whitney test at 5 %, one-sided."""
    from scipy.stats import mannwhitneyu

    longer = mannwhitneyu(
        [new.launches_us] * len(stored),
        [each.launches_us for each in stored],
        alternative="greater",
        axis=1,
    )
    return [bool(p < SIGNIFICANT) for p in longer.pvalue]


class Rival(NamedTuple):
    """Rule with the seconds of its measurement."""

    exceeds: Callable[[SessionSample, Sequence[SessionSample]], list[bool]]
    seconds: Callable[[SessionSample], float]


RIVALS = {
    "median of 30 launches + 5 %": Rival(median_exceeds, lambda line: line.launches_s),
    "do_bench + 5 %": Rival(do_bench_exceeds, lambda line: line.do_bench_s),
    "Mann-Whitney on 30 launches, p < 0.05": Rival(launches_differ, lambda line: line.launches_s),
}


def judge(
    sessions: Sessions,
    most: int,
    exceeds: Callable[[SessionSample, Sequence[SessionSample]], list[bool]],
) -> Tally:
    """Judge each process against single other processes on its card."""
    counted = Tally()
    for process, lines in sessions.lines.items():
        chosen = [other for (other,) in draws(sessions.others(process), 1, most, str(process))]
        for (kernel, dose), fresh in lines.items():
            for base in {0, dose} if kernel not in IN_STEPS else {dose}:
                known = [found for at in chosen if (found := sessions.lines[at].get((kernel, base)))]
                if kernel in sessions.kernels and known:
                    outcomes = [SLOWER if slower else PASS for slower in exceeds(fresh, known)]
                    counted.add(kernel, None if base == dose else dose, outcomes)
    return counted
