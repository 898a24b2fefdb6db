"""Raw ncu names of the labels on the details page, in all versions of ncu since 2019: one table.

The same label has another meaning in another section, and another unit there (`Memory Throughput`). Left out
are labels whose meaning depends on the version, which a CSV does not tell (`SM Busy` and `Issue Slots Busy`
are of active cycles up to 2025.1, and of elapsed ones since 2025.3), and rates of L2 compression: the page
has a 0 for rates that were not measured.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_STALLS: Mapping[str, str] = {
    "Selected": "selected",
    "Stall Barrier": "barrier",
    "Stall Branch Resolving": "branch_resolving",
    "Stall Dispatch Stall": "dispatch_stall",
    "Stall Drain": "drain",
    "Stall GMMA": "gmma",
    "Stall IMC Miss": "imc_miss",
    "Stall LG Throttle": "lg_throttle",
    "Stall Long Scoreboard": "long_scoreboard",
    "Stall MIO Throttle": "mio_throttle",
    "Stall Math Pipe Throttle": "math_pipe_throttle",
    "Stall Membar": "membar",
    "Stall Misc": "misc",
    "Stall No Instruction": "no_instruction",
    "Stall Not Selected": "not_selected",
    "Stall Short Scoreboard": "short_scoreboard",
    "Stall Sleeping": "sleeping",
    "Stall Tex Throttle": "tex_throttle",
    "Stall Wait": "wait",
}

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
    "Compute Workload Analysis": {
        "Executed Ipc Active": "sm__inst_executed.avg.per_cycle_active",
        "Executed Ipc Elapsed": "sm__inst_executed.avg.per_cycle_elapsed",
        "Issued Ipc Active": "sm__inst_issued.avg.per_cycle_active",
    },
    "Memory Workload Analysis": {
        "L1 Hit Rate": "l1tex__t_sector_hit_rate.pct",  # ncu 2019
        "L1/TEX Hit Rate": "l1tex__t_sector_hit_rate.pct",
        "L2 Hit Rate": "lts__t_sector_hit_rate.pct",
        "L2 Persisting Size": "launch__persisting_l2_cache_size",
        "Local Memory Spilling Request Overhead": "derived__local_spilling_requests_pct",
        "Local Memory Spilling Requests": "derived__local_spilling_requests",
        "Max Bandwidth": "gpu__compute_memory_request_throughput.avg.pct_of_peak_sustained_elapsed",
        "Mem Busy": "gpu__compute_memory_access_throughput.avg.pct_of_peak_sustained_elapsed",
        "Mem Pipes Busy": "sm__memory_throughput.avg.pct_of_peak_sustained_elapsed",
        "Memory Throughput": "dram__bytes.sum.per_second",
    },
    "Scheduler Statistics": {
        "Active Warps Per Scheduler": "smsp__warps_active.avg.per_cycle_active",
        "Eligible Warps Per Scheduler": "smsp__warps_eligible.avg.per_cycle_active",
        "Issued Warp Per Scheduler": "smsp__issue_active.avg.per_cycle_active",
        "No Eligible": "smsp__issue_inst0.avg.pct_of_peak_sustained_active",
        "One or More Eligible": "smsp__issue_active.avg.pct_of_peak_sustained_active",
    },
    "Warp State Statistics": {
        "Avg. Active Threads Per Warp": "smsp__thread_inst_executed_per_inst_executed.ratio",
        "Avg. Not Predicated Off Threads Per Warp": (
            "smsp__thread_inst_executed_pred_on_per_inst_executed.ratio"
        ),
        "Warp Cycles Per Executed Instruction": "smsp__average_warps_active_per_inst_executed.ratio",
        "Warp Cycles Per Issued Instruction": "smsp__average_warp_latency_per_inst_issued.ratio",
        **{
            label: f"smsp__average_warps_issue_stalled_{reason}_per_issue_active.ratio"
            for label, reason in _STALLS.items()
        },
    },
    "Instruction Statistics": {
        "Avg. Executed Instructions Per Scheduler": "smsp__inst_executed.avg",
        "Avg. Issued Instructions Per Scheduler": "smsp__inst_issued.avg",
        "Executed Instructions": "smsp__inst_executed.sum",
        "Issued Instructions": "smsp__inst_issued.sum",
    },
    "Launch Statistics": {
        "# SMs": "launch__sm_count",
        "# TPCs": "launch__tpc_count",
        "Block Size": "launch__block_size",
        "Cluster Scheduling Policy": "launch__cluster_scheduling_policy",
        "Cluster Size": "launch__cluster_size",
        "Driver Shared Memory Per Block": "launch__shared_mem_per_block_driver",
        "Dynamic Shared Memory Per Block": "launch__shared_mem_per_block_dynamic",
        "Enabled TPC IDs": "launch__tpc_enabled",
        "Function Cache Configuration": "launch__func_cache_config",
        "Grid Size": "launch__grid_size",
        "Registers Per Thread": "launch__registers_per_thread",
        "Shared Memory Configuration Size": "launch__shared_mem_config_size",
        "Stack Size": "launch__stack_size",
        "Static Shared Memory Per Block": "launch__shared_mem_per_block_static",
        "Threads": "launch__thread_count",
        "Uses Green Context": "launch__uses_green_context",
        "Waves Per SM": "launch__waves_per_multiprocessor",
    },
    "Occupancy": {
        "Achieved Active Warps Per SM": "sm__warps_active.avg.per_cycle_active",
        "Achieved Occupancy": "sm__warps_active.avg.pct_of_peak_sustained_active",
        "Block Limit Barriers": "launch__occupancy_limit_barriers",
        "Block Limit Registers": "launch__occupancy_limit_registers",
        "Block Limit SM": "launch__occupancy_limit_blocks",
        "Block Limit Shared Mem": "launch__occupancy_limit_shared_mem",
        "Block Limit Warps": "launch__occupancy_limit_warps",
        "Cluster Occupancy": "launch__occupancy_cluster_pct",
        "Max Active Clusters": "launch__cluster_max_active",
        "Max Cluster Size": "launch__cluster_max_potential_size",
        "Overall GPU Occupancy": "launch__occupancy_cluster_gpu_pct",
        "Theoretical Active Warps per SM": "sm__maximum_warps_avg_per_active_cycle",
        "Theoretical Occupancy": "sm__maximum_warps_per_active_cycle_pct",
    },
    "GPU and Memory Workload Distribution": {
        "Average DRAM Active Cycles": "dram__cycles_active.avg",
        "Average L1 Active Cycles": "l1tex__cycles_active.avg",
        "Average L2 Active Cycles": "lts__cycles_active.avg",
        "Average SM Active Cycles": "sm__cycles_active.avg",
        "Average SMSP Active Cycles": "smsp__cycles_active.avg",
        "Total DRAM Elapsed Cycles": "dram__cycles_elapsed.sum",
        "Total L1 Elapsed Cycles": "l1tex__cycles_elapsed.sum",
        "Total L2 Elapsed Cycles": "lts__cycles_elapsed.sum",
        "Total SM Elapsed Cycles": "sm__cycles_elapsed.sum",
        "Total SMSP Elapsed Cycles": "smsp__cycles_elapsed.sum",
    },
    "Source Counters": {
        "Avg. Divergent Branches": "smsp__sass_branch_targets_threads_divergent.avg",
        "Branch Efficiency": "smsp__sass_average_branch_targets_threads_uniform.pct",
        "Branch Instructions": "smsp__inst_executed_op_branch.sum",
        "Branch Instructions Ratio": "derived__smsp__inst_executed_op_branch_pct",
    },
}

RAW_NAMES: Mapping[tuple[str, str], str] = {
    (section, label): name for section, labels in _SECTIONS.items() for label, name in labels.items()
}
"""Raw ncu names by section and label."""

_REQUESTED = "Command line profiler metrics"
_NAME_AT_END = re.compile(r"\b(\w+__[\w.]+)\)?$")


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
