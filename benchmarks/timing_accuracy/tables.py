"""Format the results as Markdown."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean, median, stdev
from typing import TYPE_CHECKING

from benchmarks.markdown import provenance, table, us
from benchmarks.timing_accuracy.kernels import KERNELS
from pytest_gpuperf.statistics.thresholds import HELD_BACK

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks.timing_accuracy.results import Condition, Ours, Results

MOST_ERROR_PCT, MOST_ERROR_US = 2.0, 0.1
"""Target for an error, which may be within either."""
CONDITIONS: tuple[Condition, ...] = ("hot", "cold")
MOST_SPREAD_PCT = 0.3
"""Target for the range from the fastest to the slowest process."""

OTHERS: dict[str, tuple[Condition, str]] = {
    "do_bench_cudagraph": ("hot", "triton.testing.do_bench_cudagraph"),
    "torch.utils.benchmark": ("hot", "torch.utils.benchmark"),
    "pytest-benchmark": ("hot", "pytest-benchmark + synchronize"),
    "do_bench": ("cold", "triton.testing.do_bench"),
    "do_bench_proton": ("cold", "triton.testing.do_bench_proton"),
    "do_bench_cudagraph_proton": ("cold", "triton.testing.do_bench_cudagraph_proton"),
    "gpucheck": ("cold", "gpucheck"),
}
"""Condition of each other tool's time: `cold` if it flushes L2 between calls."""


@dataclass(frozen=True)
class Row:
    """Times of one kernel in one condition."""

    kernel: str
    truths_us: tuple[float, ...]
    """True duration in each process that read it."""
    pairs_us: tuple[tuple[float, float], ...]
    """The plugin's time and the true duration in each process with both, on the same memory."""
    sources: tuple[str, ...]
    power_limited: bool

    @property
    def true_us(self) -> float:
        """Return the true duration: the median over the processes."""
        return median(self.truths_us)

    @property
    def times_us(self) -> tuple[float, ...]:
        """Return the plugin's time in each process."""
        return tuple(time_us for time_us, _ in self.pairs_us)

    @property
    def time_us(self) -> float:
        """Return the plugin's time: the median over the processes."""
        return median(self.times_us)

    @property
    def error_us(self) -> float:
        """Return the error within a process: the median over the processes."""
        return median(time_us - true_us for time_us, true_us in self.pairs_us)

    @property
    def error_pct(self) -> float:
        """Return the error in % of the true duration."""
        return 100 * median(time_us / true_us - 1 for time_us, true_us in self.pairs_us)

    @property
    def spread_pct(self) -> float:
        """Return the range from the fastest to the slowest process, in % of the median."""
        return _spread_pct(self.times_us)

    @property
    def near(self) -> bool:
        """Return True if every process is within the target."""
        return all(_near(time_us - true_us, true_us) for time_us, true_us in self.pairs_us)

    @property
    def median_near(self) -> bool:
        """Return True if the median over the processes is within the target."""
        return _near(self.error_us, self.true_us)


def _near(error_us: float, true_us: float) -> bool:
    return abs(error_us) <= max(MOST_ERROR_PCT / 100 * true_us, MOST_ERROR_US)


def rows(results: Results, condition: Condition) -> list[Row]:
    """Return the kernels with a known true duration."""
    found = []
    for kernel in KERNELS:
        read = [
            (process.ours.get(kernel, {}).get(condition), process.truth[kernel])
            for process in results.processes
            if kernel in process.truth
        ]
        if not read:
            continue
        pairs = [(ours, truth.hot_us if condition == "hot" else truth.cold_us) for ours, truth in read]
        timed = [(ours, true_us) for ours, true_us in pairs if ours is not None and not ours.failure]
        clocks = [ours.sm_clock_mhz for ours, _ in timed if ours.sm_clock_mhz]
        found.append(
            Row(
                kernel=kernel,
                truths_us=tuple(true_us for _, true_us in pairs),
                pairs_us=tuple((ours.time_us, true_us) for ours, true_us in timed),
                sources=tuple(sorted({ours.source for ours, _ in timed})),
                power_limited=bool(clocks) and min(clocks) < HELD_BACK * results.max_sm_clock_mhz,
            )
        )
    return found


def ours_table(results: Results, condition: Condition) -> str:
    """Format the plugin's times and the true durations."""
    titles = ("kernel", "true µs", "its spread %", "time µs", "error µs", "error %", "spread %", "source")
    lines = []
    for row in rows(results, condition):
        name = f"{row.kernel} (power-limited)" if row.power_limited else row.kernel
        if not row.times_us:
            lines.append((name, us(row.true_us), _spread(row.truths_us), *("—",) * 5))
            continue
        sources = " and ".join(row.sources)
        lines.append(
            (
                name,
                us(row.true_us),
                _spread(row.truths_us),
                us(row.time_us),
                f"{row.error_us:+.2f}",
                f"{row.error_pct:+.1f}",
                _spread(row.times_us),
                sources,
            )
        )
    return table(titles, lines)


def placement_table(results: Results) -> str:
    """Format the standard deviations of times in one process, on the same tensors and on others."""
    titles = ["kernel"]
    for condition in CONDITIONS:
        titles += [f"{condition}, same tensors, SD %", f"{condition}, other tensors, SD %"]
    lines = []
    for kernel, found in results.placement.items():
        of_both = [found.get(condition) for condition in CONDITIONS]
        sides = [side for one in of_both for side in ((one.same_us, one.other_us) if one else ((), ()))]
        lines.append((kernel, *(f"{_sd_pct(times):.2f}" if len(times) > 1 else "—" for times in sides)))
    return table(titles, lines)


def others_table(results: Results) -> str:
    """Format the errors in % of this plugin and of other tools, each for its own condition."""
    titles = ["kernel"]
    columns: list[dict[str, str]] = []
    queued = {kernel: each.time_us for kernel in KERNELS for each in _of(results, kernel, "queued")}
    for condition in CONDITIONS:
        found = {row.kernel: row for row in rows(results, condition)}
        titles += [f"{condition}, true µs", "this plugin"]
        columns.append({kernel: us(row.true_us) for kernel, row in found.items()})
        columns.append({kernel: _error(row.error_pct) for kernel, row in found.items() if row.times_us})
        tools = {
            name: results.others.get(name, {}) for name, (wanted, _) in OTHERS.items() if wanted == condition
        }
        if condition == "hot":
            tools = {"mode `queued`": queued, **tools}
        for name, times in tools.items():
            if times:
                titles.append(OTHERS[name][1] if name in OTHERS else name)
                columns.append(
                    {
                        kernel: _times(time_us, found[kernel].true_us)
                        for kernel, time_us in times.items()
                        if time_us and kernel in found
                    }
                )
    lines = [
        (kernel, *(column.get(kernel, "—") for column in columns)) for kernel in KERNELS if kernel in found
    ]
    return table(titles, lines)


def summary(results: Results) -> str:
    """Summarise the benchmark in one paragraph."""
    parts = [
        f"{provenance(results.environment, results.date)}; {len(results.processes)} processes.",
        f"Target: within max({MOST_ERROR_PCT:.0f} %, {MOST_ERROR_US} µs) of the true duration.",
    ]
    for condition in CONDITIONS:
        parts.extend(_counted(results, condition))
    parts.extend(_placed(results))
    limited = sorted({row.kernel for each in CONDITIONS for row in rows(results, each) if row.power_limited})
    if limited:
        parts.append(f"At the power limit, not counted: {', '.join(limited)}.")
    parts.extend(f"No times by {name}: {why}." for name, why in sorted(results.failures.items()))
    return " ".join(parts) + "\n"


def _counted(results: Results, condition: Condition) -> Iterator[str]:
    free = [row for row in rows(results, condition) if not row.power_limited]
    timed = [row for row in free if row.times_us]
    if not timed:
        return
    near = sum(row.near for row in timed)
    median_near = sum(row.median_near for row in timed)
    worst = max(
        timed, key=lambda row: abs(row.error_us) / max(MOST_ERROR_PCT / 100 * row.true_us, MOST_ERROR_US)
    )
    yield (
        f"{condition.capitalize()}: {near} of {len(free)} kernels are within the target in every process, "
        f"{median_near} in the median; the worst is {worst.kernel}, {worst.error_us:+.2f} µs "
        f"({worst.error_pct:+.1f} %)."
    )
    spread = [row for row in timed if len(row.times_us) > 1]
    if spread:
        widest = max(spread, key=lambda row: row.spread_pct)
        steady = sum(row.spread_pct <= MOST_SPREAD_PCT for row in spread)
        yield (
            f"{steady} of {len(spread)} spread by at most {MOST_SPREAD_PCT} % over the processes, "
            f"{widest.kernel} most: {widest.spread_pct:.2f} %."
        )


def _placed(results: Results) -> Iterator[str]:
    for condition in CONDITIONS:
        found = [each[condition] for each in results.placement.values() if condition in each]
        found = [each for each in found if len(each.same_us) > 1 and len(each.other_us) > 1]
        if found:
            same, other = (
                [_sd_pct(times) for times in side]
                for side in zip(*((one.same_us, one.other_us) for one in found), strict=True)
            )
            yield (
                f"Standard deviation of short kernels in one process, {condition}: "
                f"{min(same):.2f} to {max(same):.2f} % on the same tensors, "
                f"{min(other):.2f} to {max(other):.2f} % on new ones."
            )


def _of(results: Results, kernel: str, mode: str) -> Iterator[Ours]:
    for process in results.processes:
        if mode in process.ours.get(kernel, {}):
            yield process.ours[kernel][mode]


def _sd_pct(times_us: Sequence[float]) -> float:
    return 100 * stdev(times_us) / fmean(times_us)


def _spread_pct(times_us: Sequence[float]) -> float:
    return 100 * (max(times_us) - min(times_us)) / median(times_us)


def _spread(times_us: Sequence[float]) -> str:
    return f"{_spread_pct(times_us):.2f}" if len(times_us) > 1 else "—"


def _times(found_us: float, true_us: float) -> str:
    ratio = found_us / true_us
    return _error(100 * (ratio - 1)) if ratio < 2 else f"{ratio:.1f}-fold"


def _error(percent: float) -> str:
    # Zero has no sign.
    return f"{round(percent, 1) + 0.0:+.1f}"
