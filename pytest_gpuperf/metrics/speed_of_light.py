"""Distance of a kernel from the limits of the GPU: speed of light, arithmetic pipes, issue slots."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, get_args

from pytest_gpuperf.metrics.metric import (
    EVERY_CHIP,
    Combining,
    Metric,
    Preset,
    Source,
    Tier,
    but,
    one,
    scaled,
    since,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

_SOL, _COMPUTE = "SpeedOfLight", "ComputeWorkloadAnalysis"
_ELAPSED, _ACTIVE = "avg.pct_of_peak_sustained_elapsed", "avg.pct_of_peak_sustained_active"

OWN_MEMORY = but("ga10b", "gb10b", "gb20b")
"""Chips with DRAM of their own. The others use the memory of the computer and have no counters of it."""
HAVE_TMA = since("gh100")
"""Chips with the Tensor Memory Accelerator."""


def _megahertz(values: Sequence[float]) -> float | None:
    return 1e3 * values[0] / values[1] if values[1] else None


_share = partial(Metric, section=_COMPUTE, better="higher")
_instructions = partial(Metric, section=_COMPUTE, tier=Tier.NEAR_EXACT, combining=Combining.SUM)


def _pipe(
    name: str, raw: str, work: str, chips: frozenset[str] = EVERY_CHIP, *, presets: tuple[Preset, ...] = ()
) -> Metric:
    sources = one(f"sm__{raw}.{_ELAPSED}", chips=chips)
    return _share(f"pipe.{name}", "%", f"{name} pipe, of its peak: {work}", sources, presets=presets)


# The speed of light is made of these pipes, so they come in the same passes.
_of_light = partial(_pipe, presets=("default", "sol"))


def _throughput(unit: str, raw: str, explanation: str, chips: frozenset[str] = EVERY_CHIP) -> Metric:
    """Return the share of a unit's peak; that of the SM is no memory."""
    presets: tuple[Preset, ...] = ("default", "sol") if unit == "sm" else ("default", "sol", "memory")
    sources = one(raw, chips=chips)
    return _share(f"{unit}_throughput", "%", explanation, sources, section=_SOL, presets=presets)


SPEED = (
    Metric(
        "duration_us",
        "us",
        "time under the profiler",
        one("gpu__time_duration.sum", scaled(1e-3)),
        section=_SOL,
        better="lower",
        combining=Combining.SUM,
        presets=get_args(Preset),
    ),
    _throughput("sm", f"sm__throughput.{_ELAPSED}", "compute speed of light: busiest unit of the SM"),
    _throughput(
        "memory",
        f"gpu__compute_memory_throughput.{_ELAPSED}",
        "memory speed of light: busiest unit from L1 to DRAM",
    ),
    _throughput("dram", f"gpu__dram_throughput.{_ELAPSED}", "busiest unit of DRAM, of its peak", OWN_MEMORY),
    _throughput("l2", f"lts__throughput.{_ELAPSED}", "busiest unit of L2, of its peak"),
    _throughput("l1", f"l1tex__throughput.{_ACTIVE}", "busiest unit of L1, of its peak while active"),
    Metric(
        "sm_clock_mhz",
        "MHz",
        "clock of the SMs under the profiler",
        (
            Source(("gpc__cycles_elapsed.avg.per_second",), scaled(1e-6)),
            # Cycles per nanosecond.
            *(
                Source((cycles, "gpu__time_duration.sum"), _megahertz, requested=False)
                for cycles in ("gpc__cycles_elapsed.max", "sm__cycles_elapsed.max")
            ),
        ),
        section=_SOL,
        presets=("sol", "roofline"),
    ),
    Metric(
        "elapsed_cycles",
        "cycle",
        "cycles of the SM clock from start to end",
        one("gpc__cycles_elapsed.max"),
        section=_SOL,
        better="lower",
        combining=Combining.SUM,
        presets=("sol",),
    ),
    _share(
        "tensor_active",
        "%",
        "cycles with the tensor pipe busy, of active cycles of the SM",
        one(f"sm__pipe_tensor_cycles_active.{_ACTIVE}"),
        presets=("default", "sol", "tensor", "one-pass"),
    ),
    _share(
        "instruction_throughput",
        "%",
        "instructions executed, of the most that the SMs could execute in the time",
        one(f"sm__inst_executed.{_ELAPSED}"),
        presets=("one-pass",),
    ),
    _of_light("alu", "pipe_alu_cycles_active", "integers and comparisons"),
    _of_light("fma", "pipe_fma_cycles_active", "float32, and half precision since GA102"),
    _pipe(
        "fmaheavy",
        "pipe_fmaheavy_cycles_active",
        "the half of fma that also multiplies integers",
        but("gv100", "tu102", "ga100"),
    ),
    _pipe("fp16", "inst_executed_pipe_fp16", "half precision", EVERY_CHIP - since("ga102")),
    _of_light("fp64", "pipe_fp64_cycles_active", "float64"),
    _of_light("lsu", "inst_executed_pipe_lsu", "loads and stores"),
    _pipe("tensor", "pipe_tensor_cycles_active", "tensor cores, of all cycles", presets=("tensor",)),
    _pipe(
        "tma",
        "pipe_tma_cycles_active",
        "copies by the Tensor Memory Accelerator",
        HAVE_TMA,
        presets=("memory", "tensor"),
    ),
    _pipe("uniform", "inst_executed_pipe_uniform", "operations that a whole warp shares", but("gv100")),
    _of_light("xu", "inst_executed_pipe_xu", "exp, sin, rsqrt and conversions"),
    _instructions(
        "tensor_pipe_instructions",
        "inst",
        "warp instructions of the tensor pipe",
        one("sm__inst_executed_pipe_tensor.sum"),
        presets=("tensor",),
    ),
    _instructions(
        "tma_instructions",
        "inst",
        "warp instructions that start copies by the Tensor Memory Accelerator",
        one("sm__inst_executed_pipe_tma.sum", chips=HAVE_TMA),
        presets=("memory", "tensor"),
    ),
    _instructions(
        "instructions",
        "inst",
        "warp instructions executed",
        one("smsp__inst_executed.sum"),
        section="InstructionStats",
        better="lower",
        presets=("default", "stalls", "memory", "one-pass"),
    ),
    _share(
        "issue_active",
        "%",
        "cycles that issued, of active cycles of a scheduler",
        one(f"smsp__issue_active.{_ACTIVE}"),
        section="SchedulerStats",
        presets=("default", "sol", "occupancy", "stalls"),
    ),
)
