"""What was found, as tables for the page."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from benchmarks.counter_agreement.agreement import COMPARED, STALLS, differences, dram_bytes
from benchmarks.counter_agreement.results import LEAST_BYTES
from benchmarks.markdown import provenance, table, us

if TYPE_CHECKING:
    from collections.abc import Iterable

    from benchmarks.counter_agreement.agreement import Difference
    from benchmarks.counter_agreement.results import Reading, Results

UNKNOWN = "—"


def source(results: Results) -> str:
    """What it was measured on."""
    ncu = results.environment.toolchain.ncu
    where = provenance(results.environment, results.date)
    return f"{where}{f', ncu {ncu} with `--cache-control none --clock-control none`' if ncu else ''}.\n"


def agreement_table(results: Results) -> str:
    """A row for each metric: on how many calls both say the same, and where they differ most."""
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
    """A row for each call: how long its kernel took and what it moved under each, and what a lookup costs."""
    titles = (
        "call",
        "at least, MB",
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
    """What a lookup costs by each."""
    later = [seconds for call in results.calls.values() for seconds in call.cupti_seconds[1:]]
    lines = []
    if later:
        lines.append(
            f"A lookup by CUPTI after the first of its call: {median(later):.2f} s "
            f"({min(later):.2f} to {max(later):.2f})."
        )
    if results.ncu_seconds is not None and results.plain_seconds is not None:
        kernels = sum(len(call.ncu) for call in results.calls.values())
        more = results.ncu_seconds - results.plain_seconds
        lines.append(f"ncu: {more:.1f} s more than without it, {more / kernels:.2f} s for each of {kernels}.")
    else:
        lines.append("What ncu costs was not taken.")
    return " ".join(lines) + "\n"


def _megabytes(readings: tuple[Reading, ...]) -> str:
    known = readings and all("dram_bytes" in reading.metrics for reading in readings)
    return f"{median(dram_bytes(readings)) / 1e6:.1f}" if known else UNKNOWN


def _time(readings: tuple[Reading, ...]) -> str:
    return us(median(float(reading.metrics["duration_us"]) for reading in readings)) if readings else UNKNOWN
