"""How near a kernel comes to what the GPU can do: speed of light, arithmetic pipes, issue slots."""

from __future__ import annotations

from pytest_gpuperf.metrics.chips import CHIPS
from pytest_gpuperf.metrics.metric import (
    EVERY_CHIP,
    Combining,
    Metric,
    Source,
    Tier,
    but,
    scaled,
    since,
)

_SOL, _COMPUTE = "SpeedOfLight", "ComputeWorkloadAnalysis"
_ELAPSED, _ACTIVE = "avg.pct_of_peak_sustained_elapsed", "avg.pct_of_peak_sustained_active"

OWN_MEMORY = but("ga10b", "gb10b", "gb20b")
"""The chips with DRAM of their own; the others use that of the computer, and have no counters of it."""
HAVE_TMA = since("gh100")
"""The chips with the Tensor Memory Accelerator."""


def _share(name: str, section: str, raw: str, explanation: str, chips: frozenset[str] = EVERY_CHIP) -> Metric:
    source = Source((raw,), chips=chips)
    return Metric(name, "%", "higher", Tier.STATE, Combining.DURATION, section, explanation, (source,))


def _pipe(name: str, raw: str, work: str, chips: frozenset[str] = EVERY_CHIP) -> Metric:
    return _share(
        f"pipe.{name}", _COMPUTE, f"sm__{raw}.{_ELAPSED}", f"{name} pipe, of its peak: {work}", chips
    )


SPEED = (
    Metric(
        "duration_us",
        "us",
        "lower",
        Tier.STATE,
        Combining.SUM,
        _SOL,
        "time under the profiler",
        (Source(("gpu__time_duration.sum",), scaled(1e-3)),),
    ),
    _share(
        "sm_throughput", _SOL, f"sm__throughput.{_ELAPSED}", "compute speed of light: busiest unit of the SM"
    ),
    _share(
        "memory_throughput",
        _SOL,
        f"gpu__compute_memory_throughput.{_ELAPSED}",
        "memory speed of light: busiest unit from L1 to DRAM",
    ),
    _share(
        "dram_throughput",
        _SOL,
        f"gpu__dram_throughput.{_ELAPSED}",
        "busiest unit of DRAM, of its peak",
        OWN_MEMORY,
    ),
    _share("l2_throughput", _SOL, f"lts__throughput.{_ELAPSED}", "busiest unit of L2, of its peak"),
    _share(
        "l1_throughput", _SOL, f"l1tex__throughput.{_ACTIVE}", "busiest unit of L1, of its peak while active"
    ),
    Metric(
        "sm_clock_mhz",
        "MHz",
        "",
        Tier.STATE,
        Combining.DURATION,
        _SOL,
        "clock of the SMs under the profiler",
        (Source(("gpc__cycles_elapsed.avg.per_second",), scaled(1e-6)),),
    ),
    Metric(
        "elapsed_cycles",
        "cycle",
        "lower",
        Tier.STATE,
        Combining.SUM,
        _SOL,
        "cycles of the SMs' clock from begin to end",
        (Source(("gpc__cycles_elapsed.max",)),),
    ),
    _share(
        "tensor_active",
        _COMPUTE,
        f"sm__pipe_tensor_cycles_active.{_ACTIVE}",
        "cycles with the tensor pipe busy, of active cycles of the SM",
    ),
    _share(
        "instruction_throughput",
        _COMPUTE,
        f"sm__inst_executed.{_ELAPSED}",
        "instructions executed, of what the SMs could in the time",
    ),
    _pipe("alu", "pipe_alu_cycles_active", "integers and comparisons"),
    _pipe("fma", "pipe_fma_cycles_active", "float32, and half precision from GA102 on"),
    _pipe(
        "fmaheavy",
        "pipe_fmaheavy_cycles_active",
        "the half of fma that multiplies integers too",
        but("gv100", "tu102", "ga100"),
    ),
    _pipe(
        "fp16",
        "inst_executed_pipe_fp16",
        "half precision",
        frozenset(chip.name for chip in CHIPS[:3]),
    ),
    _pipe("fp64", "pipe_fp64_cycles_active", "float64"),
    _pipe("lsu", "inst_executed_pipe_lsu", "loads and stores"),
    _pipe("tensor", "pipe_tensor_cycles_active", "tensor cores, of all cycles"),
    _pipe("tma", "pipe_tma_cycles_active", "copies by the Tensor Memory Accelerator", HAVE_TMA),
    _pipe("uniform", "inst_executed_pipe_uniform", "what is the same in a whole warp", but("gv100")),
    _pipe("xu", "inst_executed_pipe_xu", "exp, sin, rsqrt and conversions"),
    Metric(
        "tensor_pipe_instructions",
        "inst",
        "",
        Tier.NEAR_EXACT,
        Combining.SUM,
        _COMPUTE,
        "warp instructions of the tensor pipe",
        (Source(("sm__inst_executed_pipe_tensor.sum",)),),
    ),
    Metric(
        "tma_instructions",
        "inst",
        "",
        Tier.NEAR_EXACT,
        Combining.SUM,
        _COMPUTE,
        "warp instructions that have the Tensor Memory Accelerator copy",
        (Source(("sm__inst_executed_pipe_tma.sum",), chips=HAVE_TMA),),
    ),
    Metric(
        "instructions",
        "inst",
        "lower",
        Tier.NEAR_EXACT,
        Combining.SUM,
        "InstructionStats",
        "warp instructions executed",
        (Source(("smsp__inst_executed.sum",)),),
    ),
    _share(
        "issue_active",
        "SchedulerStats",
        f"smsp__issue_active.{_ACTIVE}",
        "cycles that issued, of active cycles of a scheduler",
    ),
)
