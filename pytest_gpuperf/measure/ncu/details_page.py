"""Raw ncu names of the labels on the details page, by section, in all versions of ncu.

The same label has another meaning in another section (`Memory Throughput`). These are the labels that ncu
2025.3.1 prints by default, and the labels of the stalls from `--print-details all`. Rates of L2 compression
are left out: the page has a 0 for rates that were not measured.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_SECTIONS: Mapping[str, Mapping[str, str]] = {
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
    },
    "Compute Workload Analysis": {
        "Executed Ipc Active": "sm__inst_executed.avg.per_cycle_active",
        "Executed Ipc Elapsed": "sm__inst_executed.avg.per_cycle_elapsed",
        "Issue Slots Busy": "sm__inst_issued.avg.pct_of_peak_sustained_elapsed",
        "Issued Ipc Active": "sm__inst_issued.avg.per_cycle_active",
        "SM Busy": "sm__instruction_throughput.avg.pct_of_peak_sustained_elapsed",
    },
    "Memory Workload Analysis": {
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

RAW_NAMES: Mapping[tuple[str, str], str] = {
    **{(section, label): name for section, labels in _SECTIONS.items() for label, name in labels.items()},
    **{
        ("Warp State Statistics", label): f"smsp__average_warps_issue_stalled_{reason}_per_issue_active.ratio"
        for label, reason in _STALLS.items()
    },
}
"""Raw ncu names by section and label."""

_SPEED_OF_LIGHT = "GPU Speed Of Light Throughput"
_OLDER_SECTIONS = {"GPU Speed Of Light": _SPEED_OF_LIGHT}
_OLDER_LABELS: Mapping[tuple[str, str], str] = {
    (_SPEED_OF_LIGHT, old): _SECTIONS[_SPEED_OF_LIGHT][new]
    for old, new in {
        "Memory Frequency": "DRAM Frequency",
        "Memory [%]": "Memory Throughput",
        "SM [%]": "Compute (SM) Throughput",
        "SOL DRAM": "DRAM Throughput",
        "SOL FB": "DRAM Throughput",
        "SOL L1/TEX Cache": "L1/TEX Cache Throughput",
        "SOL L2": "L2 Cache Throughput",
        "SOL L2 Cache": "L2 Cache Throughput",
        "SOL TEX": "L1/TEX Cache Throughput",
    }.items()
}
"""Labels of ncu 2019 to 2021."""
_REQUESTED = "Command line profiler metrics"
_NAME_AT_END = re.compile(r"\b(\w+__[\w.]+)\)?$")


def raw_name(section: str, label: str) -> str:
    """Return the raw ncu name of a label; `section: label` if it is not known.

    Args:
        section: Title of the section.
        label: A label, a raw name, or both (`--print-metric-name label-name`).
    """
    section = _OLDER_SECTIONS.get(section, section)
    if found := _NAME_AT_END.search(label):
        return found[1]
    known = RAW_NAMES.get((section, label)) or _OLDER_LABELS.get((section, label))
    return known or (label if section in ("", _REQUESTED) else f"{section}: {label}")
