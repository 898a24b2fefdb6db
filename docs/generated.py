"""What the pages take straight from the code and from the baselines."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pytest_gpuperf.counters.catalogue import METRICS
from pytest_gpuperf.options import OPTIONS
from pytest_gpuperf.static.occupancy import MULTIPROCESSORS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

EXAMPLE = "suites/test_square.py::test_square_triton[8192x8192]"
EXAMPLE_COUNTERS = ("achieved_occupancy", "duration_us", "memory_throughput", "registers_per_thread")


def options(_: Path) -> str:
    """All options as `pytest --help` has them."""
    on = (
        "`--gpuperf`",
        "`gpuperf`",
        "off",
        "check, time and profile GPU kernels and judge them against their baselines",
    )
    rows = [on]
    for option in OPTIONS:
        value = ",".join(option.choices)
        flag = f"{option.flag}={{{value}}}" if value else f"{option.flag}={option.metavar}"
        default = f"`{option.default}`" if option.default else option.unset
        rows.append((f"`{flag}`", f"`{option.ini}`", default, option.help))
    return _table(("option", "ini key", "default", "what it does"), rows)


def metrics(_: Path) -> str:
    """All metrics of the catalogue."""
    rows = [
        (
            f"`{metric.name}`",
            metric.unit.replace("us", "µs"),
            metric.better,
            metric.tier.value,
            metric.combining.value,
            metric.explanation,
            f"`{metric.ncu}`" if metric.ncu else "",
        )
        for metric in METRICS.values()
    ]
    titles = ("name", "unit", "better", "tier", "several kernels", "what it is", "read from")
    return _table(titles, rows)


def baseline(root: Path) -> str:
    """One test of a baseline file, with few of its counters."""
    content = json.loads(
        (root / "baselines" / "nvidia-h200" / "test_square.json").read_text(encoding="utf-8")
    )
    test = content["tests"][EXAMPLE]
    measurement = test["measurements"]["main"]
    measurement["counters"] = {name: measurement["counters"][name] for name in EXAMPLE_COUNTERS}
    used = {measurement["counters_run"], *(session["run"] for session in measurement["time"]["sessions"])}
    content |= {"runs": {run: content["runs"][run] for run in used}, "tests": {EXAMPLE: test}}
    return f"```json\n{json.dumps(content, indent=2, sort_keys=True)}\n```\n"


def multiprocessors(_: Path) -> str:
    """What an SM of each compute capability holds."""
    rows = [
        (
            f"{major}.{minor}",
            str(sm.warps),
            str(sm.blocks),
            " ".join(map(str, sm.shared_memory_kib)),
            f"{sm.block_shared_memory_bytes:,}",
            str(sm.barriers_per_block * sm.blocks or ""),
        )
        for (major, minor), sm in MULTIPROCESSORS.items()
    ]
    titles = (
        "compute capability",
        "warps",
        "blocks",
        "shared memory, KiB",
        "of one block at most, bytes",
        "barriers",
    )
    return _table(titles, rows)


GENERATED: Mapping[str, Callable[[Path], str]] = {
    "options": options,
    "metrics": metrics,
    "baseline": baseline,
    "multiprocessors": multiprocessors,
}
"""By the name in the marker; no text has an empty line."""


def _table(titles: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    titles = tuple(titles)
    lines = [titles, ("---",) * len(titles), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', '&#124;') for cell in line)} |\n" for line in lines)
