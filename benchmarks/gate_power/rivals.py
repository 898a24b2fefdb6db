"""Rules in common use, on the same kernels in the same processes, with their baselines drawn from others."""

from __future__ import annotations

from statistics import fmean, median, quantiles, stdev
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.gate_power.kernels import IN_STEPS
from benchmarks.gate_power.session_rule import draws
from benchmarks.gate_power.verdicts import PASS, SLOWER, Tally

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks.gate_power.samples import SessionSample
    from benchmarks.gate_power.session_rule import Sessions

    Baselines = Sequence[tuple[SessionSample, ...]]
    """Baseline drawn for each new measurement, with as many sessions as the rule asks for."""

LIMIT = 1.05
SIGNIFICANT = 0.05
SIGMAS = 3.0
CLEAR_GAP = 0.005
"""nvbench's `clear_gap.relative` of the default preset."""


def median_exceeds(new: Sequence[SessionSample], baselines: Baselines) -> list[bool]:
    """Return where the median of launches is over 5 % longer, as by `--benchmark-compare-fail=median:5%`."""
    limits = [median(one.launches_us) / LIMIT for one in new]
    return [median(each.launches_us) < limit for limit, (each,) in zip(limits, baselines, strict=True)]


def do_bench_exceeds(new: Sequence[SessionSample], baselines: Baselines) -> list[bool]:
    """Return where the median of `triton.testing.do_bench` is over 5 % longer."""
    return [each.do_bench_us < one.do_bench_us / LIMIT for one, (each,) in zip(new, baselines, strict=True)]


def three_sigma(new: Sequence[SessionSample], baselines: Baselines) -> list[bool]:
    """Return where the median of launches is three standard deviations above the mean of the sessions."""
    known = [[median(each.launches_us) for each in baseline] for baseline in baselines]
    limits = [fmean(times) + SIGMAS * stdev(times) for times in known]
    return [median(one.launches_us) > limit for one, limit in zip(new, limits, strict=True)]


def clear_gap(new: Sequence[SessionSample], baselines: Baselines) -> list[bool]:
    """Return where `nvbench-compare-robust` says SLOW: the ranges of launches have a gap, in cycles, too.

    A range is from the shortest launch to the third quartile. Source: NVIDIA/nvbench, 2df385f,
    docs/nvbench_compare_robust.md. Here are 30 launches; nvbench takes more, and flushes the L2 before each.
    """
    found = []
    for one, (each,) in zip(new, baselines, strict=True):
        clock, other = one.timing.sm_clock_mhz, each.timing.sm_clock_mhz
        gap = min(one.launches_us) / quantiles(each.launches_us, n=4)[2]
        in_cycles = gap * clock / other if clock and other else gap
        found.append(min(gap, in_cycles) >= 1 + CLEAR_GAP)
    return found


def launches_differ(new: Sequence[SessionSample], baselines: Baselines) -> list[bool]:
    """Return where launches are longer by the Mann-Whitney test at 5 %, one-sided."""
    from scipy.stats import mannwhitneyu

    launches = [one.launches_us for one in new], [each.launches_us for (each,) in baselines]
    return [bool(p < SIGNIFICANT) for p in mannwhitneyu(*launches, alternative="greater", axis=1).pvalue]


class Rival(NamedTuple):
    """Rule with the seconds of its measurement."""

    exceeds: Callable[[Sequence[SessionSample], Baselines], list[bool]]
    seconds: Callable[[SessionSample], float]
    stored: int = 1
    """Number of sessions of a baseline."""


RIVALS = {
    "median of 30 launches + 5 %": Rival(median_exceeds, lambda line: line.launches_s),
    "do_bench + 5 %": Rival(do_bench_exceeds, lambda line: line.do_bench_s),
    "3 sigma of 5 sessions": Rival(three_sigma, lambda line: line.launches_s, stored=5),
    "nvbench's robust rule": Rival(clear_gap, lambda line: line.launches_s),
    "Mann-Whitney on 30 launches, p < 0.05": Rival(launches_differ, lambda line: line.launches_s),
}


def judge(sessions: Sessions, most: int, rival: Rival) -> Tally:
    """Judge each process against others on its card."""
    counted = Tally()
    for process, lines in sessions.lines.items():
        others = sessions.others(process)
        chosen = draws(others, rival.stored, most, str(process)) if len(others) >= rival.stored else []
        cases = []
        for (kernel, dose), fresh in lines.items():
            for base in {0, dose} if kernel not in IN_STEPS else {dose}:
                drawn = [tuple(sessions.lines[at].get((kernel, base)) for at in draw) for draw in chosen]
                known = [whole for draw in drawn if len(whole := tuple(filter(None, draw))) == rival.stored]
                if kernel in sessions.kernels and known:
                    cases.append((kernel, None if base == dose else dose, fresh, known))
        # All at once: each call of SciPy takes a millisecond.
        new = [fresh for _, _, fresh, known in cases for _ in known]
        slower = iter(rival.exceeds(new, [each for *_, known in cases for each in known]) if cases else ())
        for kernel, slower_by, _, known in cases:
            outcomes = [SLOWER if next(slower) else PASS for _ in known]
            counted.add(kernel, slower_by, sessions.card(process), outcomes, process)
    return counted
