"""The details page as CSV: raw ncu names of its labels, and its rules.

Labels are known from ncu 2019 on, if a short metric is made of them.

The same label has another meaning in another section, and another unit there (`Memory Throughput`). Left out
are labels whose meaning depends on the version, which a CSV does not tell (`SM Busy` and `Issue Slots Busy`
are of active cycles up to 2025.1, and of elapsed ones since 2025.3), and rates of L2 compression: the page
has a 0 for rates that were not measured.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import TYPE_CHECKING

from pytest_gpuperf.features.ncu.rule_results import RuleResult, finite

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pytest_gpuperf.features.ncu.rule_results import Kind, Scope

_STALLS = (
    *("Selected", "Stall Barrier", "Stall Branch Resolving", "Stall Dispatch Stall", "Stall Drain"),
    *("Stall GMMA", "Stall IMC Miss", "Stall LG Throttle", "Stall Long Scoreboard", "Stall Membar"),
    *(
        "Stall MIO Throttle",
        "Stall Math Pipe Throttle",
        "Stall Misc",
        "Stall No Instruction",
        "Stall Sleeping",
    ),
    *("Stall Not Selected", "Stall Short Scoreboard", "Stall Tex Throttle", "Stall Wait"),
)

_SECTIONS: Mapping[str, Mapping[str, str]] = {
    # Up to ncu 2021.1 `GPU Speed Of Light`.
    "GPU Speed Of Light Throughput": {
        "Compute (SM) Throughput": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
        "DRAM Frequency": "dram__cycles_elapsed.avg.per_second",
        "DRAM Throughput": "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
        "Duration": "gpu__time_duration.sum",
        "Elapsed Cycles": "gpc__cycles_elapsed.max",
        "L1/TEX Cache Throughput": "l1tex__throughput.avg.pct_of_peak_sustained_active",
        "L2 Cache Throughput": "lts__throughput.avg.pct_of_peak_sustained_elapsed",
        "Memory Throughput": "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
        "SM Active Cycles": "sm__cycles_active.avg",
        "SM Frequency": "gpc__cycles_elapsed.avg.per_second",
        # ncu 2019 to 2021, in turn.
        "Memory Frequency": "dram__cycles_elapsed.avg.per_second",
        "SOL FB": "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
        "SOL TEX": "l1tex__throughput.avg.pct_of_peak_sustained_active",
        "SOL L2": "lts__throughput.avg.pct_of_peak_sustained_elapsed",
        "SOL DRAM": "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
        "SOL L1/TEX Cache": "l1tex__throughput.avg.pct_of_peak_sustained_active",
        "SOL L2 Cache": "lts__throughput.avg.pct_of_peak_sustained_elapsed",
        "SOL Memory": "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
        "SOL SM": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
        "Memory [%]": "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
        "SM [%]": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
        "Compute (SM) [%]": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    },
    "Memory Workload Analysis": {
        "L1 Hit Rate": "l1tex__t_sector_hit_rate.pct",  # ncu 2019
        "L1/TEX Hit Rate": "l1tex__t_sector_hit_rate.pct",
        "L2 Hit Rate": "lts__t_sector_hit_rate.pct",
        "Local Memory Spilling Requests": "derived__local_spilling_requests",
        "Memory Throughput": "dram__bytes.sum.per_second",
    },
    "Scheduler Statistics": {
        "Active Warps Per Scheduler": "smsp__warps_active.avg.per_cycle_active",
        "Eligible Warps Per Scheduler": "smsp__warps_eligible.avg.per_cycle_active",
        "Issued Warp Per Scheduler": "smsp__issue_active.avg.per_cycle_active",
        "One or More Eligible": "smsp__issue_active.avg.pct_of_peak_sustained_active",
    },
    "Warp State Statistics": {
        "Warp Cycles Per Issued Instruction": "smsp__average_warp_latency_per_inst_issued.ratio",
        **{
            label: f"smsp__average_warps_issue_stalled_{reason}_per_issue_active.ratio"
            for label in _STALLS
            if (reason := label.removeprefix("Stall ").lower().replace(" ", "_"))
        },
    },
    "Instruction Statistics": {
        "Executed Instructions": "smsp__inst_executed.sum",
        "Issued Instructions": "smsp__inst_issued.sum",
    },
    "Launch Statistics": {
        "# SMs": "launch__sm_count",
        "Block Size": "launch__block_size",
        "Cluster Size": "launch__cluster_size",
        "Driver Shared Memory Per Block": "launch__shared_mem_per_block_driver",
        "Dynamic Shared Memory Per Block": "launch__shared_mem_per_block_dynamic",
        "Grid Size": "launch__grid_size",
        "Registers Per Thread": "launch__registers_per_thread",
        "Static Shared Memory Per Block": "launch__shared_mem_per_block_static",
        "Waves Per SM": "launch__waves_per_multiprocessor",
    },
    "Occupancy": {
        "Achieved Occupancy": "sm__warps_active.avg.pct_of_peak_sustained_active",
        "Block Limit Barriers": "launch__occupancy_limit_barriers",
        "Block Limit Registers": "launch__occupancy_limit_registers",
        "Block Limit SM": "launch__occupancy_limit_blocks",
        "Block Limit Shared Mem": "launch__occupancy_limit_shared_mem",
        "Block Limit Warps": "launch__occupancy_limit_warps",
        "Theoretical Occupancy": "sm__maximum_warps_per_active_cycle_pct",
    },
    "GPU and Memory Workload Distribution": {
        "Average L1 Active Cycles": "l1tex__cycles_active.avg",
        "Average SM Active Cycles": "sm__cycles_active.avg",
        "Average SMSP Active Cycles": "smsp__cycles_active.avg",
        "Total L2 Elapsed Cycles": "lts__cycles_elapsed.sum",
        "Total SM Elapsed Cycles": "sm__cycles_elapsed.sum",
    },
}

RAW_NAMES: Mapping[tuple[str, str], str] = {
    (section, label): name for section, labels in _SECTIONS.items() for label, name in labels.items()
}
"""Raw ncu names by section and label."""

_REQUESTED = "Command line profiler metrics"
_NAME_AT_END = re.compile(r"\b(\w+__[\w.]+)\)?$")
_KINDS: dict[str, Kind] = {
    "INF": "information",
    "OPT": "optimization",
    "WRN": "warning",
    "ERR": "error",
}
_SCOPES: dict[str, Scope] = {"local": "local", "global": "global"}
# ncu 2023.1 has the estimate in the text, later versions in a column.
_ESTIMATE = re.compile(r"(?:Est\.|Estimated) (?P<local>Local )?Speedup: (?P<pct>[\d.]+)%\s*")


@lru_cache(maxsize=4096)
def raw_name(section: str, item: str, label: str, unit: str) -> str:
    """Return the raw ncu name of a label; `section: item: label` if it is not known.

    Args:
        section: Title of the section; empty if the file does not tell.
        item: Title of a table or chart in the section; empty in its head.
        label: A label, a raw name, or both (`--print-metric-name label-name`).
        unit: ncu's unit. A label with a unit of another kind has another meaning.
    """
    if found := _NAME_AT_END.search(label):
        return found[1]
    if section == "GPU Speed Of Light":
        section = "GPU Speed Of Light Throughput"
    names = {
        name
        for (title, known), name in RAW_NAMES.items()
        if known == label and title == (section or title) and ("pct" in name) == (unit == "%")
    }
    if len(names) == 1:
        return names.pop()
    return ": ".join(filter(None, ("" if section == _REQUESTED else section, item, label)))


def by_speedup(rules: Iterable[RuleResult]) -> list[RuleResult]:
    """Sort by estimated speedup, the largest first; rules without one stay at the end in ncu's order."""
    return sorted(
        rules,
        key=lambda rule: math.inf if rule.estimated_speedup_pct is None else -rule.estimated_speedup_pct,
    )


def rule_of(row: dict[str, str]) -> RuleResult | None:
    """Return the rule of a row; None if the row has none.

    Args:
        row: Cells by column.
    """
    name, message = row.get("Rule Name", ""), row.get("Rule Description", "")
    if not name or not message:
        return None
    speedup, scope = finite(row.get("Estimated Speedup", "")), row.get("Estimated Speedup Type", "")
    if speedup is None and (estimate := _ESTIMATE.match(message)):
        speedup, scope = float(estimate["pct"]), "local" if estimate["local"] else "global"
        message = message[estimate.end() :]
    return RuleResult(
        rule=name,
        section=row.get("Section Name", ""),
        kind=_KINDS.get(row.get("Rule Type", ""), "information"),
        message=message,
        estimated_speedup_pct=speedup,
        scope="" if speedup is None else _SCOPES.get(scope, ""),
    )
