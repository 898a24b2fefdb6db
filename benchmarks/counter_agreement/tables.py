"""Format the results as tables for the page."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from benchmarks.counter_agreement.agreement import COMPARED, RELATIVE, STALLS, differences, dram_bytes
from benchmarks.counter_agreement.results import LEAST_BYTES, REPEATS
from benchmarks.markdown import provenance, table, us
from pytest_gpuperf.measure.ncu.tool import CACHE_CONTROL, CLOCK_CONTROL

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from benchmarks.counter_agreement.agreement import Difference
    from benchmarks.counter_agreement.results import Reading, Results

UNKNOWN = "—"


def source(results: Results) -> str:
    """Return the GPU, the versions and the date."""
    ncu = results.environment.toolchain.ncu
    where = provenance(results.environment, results.date)
    options = f"--cache-control {CACHE_CONTROL} --clock-control {CLOCK_CONTROL}"
    return f"{where}{f', ncu {ncu} with `{options}`' if ncu else ''}.\n"


def agreement_table(results: Results) -> str:
    """Format a row for each metric: the number of calls on which both agree, and the largest difference."""
    calls = {name: call for name, call in results.calls.items() if call.cupti and call.ncu}
    rows = []
    for metric in COMPARED:
        found = {name: tuple(differences(call, [metric])) for name, call in calls.items()}
        found = {name: each for name, each in found.items() if each}
        same = sum(all(difference.same for difference in each) for each in found.values())
        unlike = [(name, difference) for name, each in found.items() for difference in each]
        unlike = [(name, difference) for name, difference in unlike if not difference.same]
        agree = sum(all(difference.medians_agree for difference in each) for each in found.values())
        rows.append((_title(metric), f"{same} of {len(found)}", str(agree), _furthest(unlike)))
    titles = ("metric", "the same on", "medians within 2 % on", "furthest apart: CUPTI, ncu")
    return table(titles, rows)


def _title(metric: str) -> str:
    if metric == STALLS:
        return "each `stall.*` above 5 %"
    return f"`{metric}`"


def _furthest(unlike: Iterable[tuple[str, Difference]]) -> str:
    name, found = max(unlike, key=lambda entry: entry[1].relative, default=("", None))
    if found is None:
        return UNKNOWN
    one, other = (f"{median(side):.3g}" for side in (found.by_cupti, found.by_ncu))
    return f"{name}: {one}, {other}"


def traffic_table(results: Results) -> str:
    """Format a row for each call: time and traffic of its kernel by each tool, and the cost of a lookup."""
    titles = (
        "call",
        "minimum, MB",
        "DRAM by CUPTI, MB",
        "by ncu, MB",
        "time by CUPTI, µs",
        "by ncu, µs",
        "CUPTI's lookups, s",
    )
    rows = []
    for name, call in results.calls.items():
        least = LEAST_BYTES.get(name, 0)
        moved = [_megabytes(side) for side in (call.cupti, call.ncu)]
        times = [_time(side) for side in (call.cupti, call.ncu)]
        cost = ", ".join(f"{seconds:.2f}" for seconds in call.cupti_seconds)
        rows.append((name, f"{least / 1e6:.1f}" if least else UNKNOWN, *moved, *times, cost or UNKNOWN))
    return table(titles, rows)


def cost(results: Results) -> str:
    """Format the cost of a kernel's counters by each tool."""
    calls = results.calls.values()
    by_cupti = (
        ("CUPTI, lookups in a row", [call.cupti_seconds[1:] for call in calls]),
        ("CUPTI, detached after each, as by `profile()`", [call.apart_seconds for call in calls]),
        ("CUPTI, preset `one-pass`, in a row", [call.one_pass_seconds[1:] for call in calls]),
        ("CUPTI, preset `one-pass`, detached after each", [call.one_pass_apart_seconds for call in calls]),
    )
    rows = []
    for title, of_calls in by_cupti:
        seconds = [one for each in of_calls for one in each]
        shown = (f"{median(seconds):.3f}", f"{min(seconds):.3f} to {max(seconds):.3f}") if seconds else ()
        rows.append((title, str(len(seconds)), *(shown or (UNKNOWN, UNKNOWN))))
    ncu_kernels = sum(len(call.ncu) for call in calls)
    rows.append(("ncu", *_beyond_plain(results, results.ncu_seconds, ncu_kernels)))
    if results.nsight_python:
        kernels = sum(call.nsight_python is not None for call in calls) * REPEATS
        title = f"nsight-python {results.nsight_python}"
        rows.append((title, *_beyond_plain(results, results.nsight_python_seconds, kernels)))
    return table(("", "kernels", "s a kernel", "range, or total"), rows)


def nsight_python(results: Results) -> str:
    """Summarise the agreement of nsight-python with ncu, or say why it is missing."""
    if not results.nsight_python:
        return "nsight-python was not installed.\n"
    name = f"nsight-python {results.nsight_python}"
    if results.nsight_python_failure:
        return f"{name} failed: {results.nsight_python_failure}\n"
    both = {
        name: (call.nsight_python.metrics, [reading.metrics for reading in call.ncu])
        for name, call in results.calls.items()
        if call.nsight_python is not None and call.ncu
    }
    pairs = [
        (metric, float(value), [float(reading[metric]) for reading in by_ncu if metric in reading])
        for mine, by_ncu in both.values()
        for metric, value in mine.items()
        if not isinstance(value, str)
    ]
    pairs = [(metric, value, by_ncu) for metric, value, by_ncu in pairs if by_ncu]
    same = sum(_same(value, by_ncu) for _, value, by_ncu in pairs)
    return (
        f"{name} starts ncu with the same options. Of its {len(pairs)} values for {len(both)} calls, {same} "
        f"are within the range of the {REPEATS} readings by ncu, or 2 % beyond it.\n"
    )


def _same(value: float, by_ncu: Sequence[float]) -> bool:
    slack = RELATIVE * max(map(abs, by_ncu))
    return min(by_ncu) - slack <= value <= max(by_ncu) + slack


def _beyond_plain(results: Results, seconds: float | None, kernels: int) -> tuple[str, str, str]:
    """Return the number of kernels, and the time a kernel and in all beyond a run without counters."""
    if seconds is None or results.plain_seconds is None or not kernels:
        return str(kernels), UNKNOWN, UNKNOWN
    more = seconds - results.plain_seconds
    return str(kernels), f"{more / kernels:.3f}", f"{more:.1f} s total"


def _megabytes(readings: tuple[Reading, ...]) -> str:
    known = readings and all("dram_bytes" in reading.metrics for reading in readings)
    return f"{median(dram_bytes(readings)) / 1e6:.1f}" if known else UNKNOWN


def _time(readings: tuple[Reading, ...]) -> str:
    return us(median(float(reading.metrics["duration_us"]) for reading in readings)) if readings else UNKNOWN
