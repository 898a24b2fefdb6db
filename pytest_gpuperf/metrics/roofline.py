"""Ceilings of a roofline and the traffic below them, by the formulas of ncu's hierarchical roofline sections.

A ceiling is the most that a unit can do in a cycle (`.sum.peak_sustained`) times its cycles per second while
the kernel ran. Neither takes a pass of its own: the first is a constant of the chip. Of the operations of
tensor cores, the ceiling is that of dense matrices.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pytest_gpuperf.metrics.metric import EVERY_CHIP, Combining, Metric, Source, but, scaled, since
from pytest_gpuperf.metrics.speed_of_light import OWN_MEMORY

if TYPE_CHECKING:
    from pytest_gpuperf.metrics.metric import Formula

L1_BYTES, L2_BYTES = 128, 32
"""Bytes that L1 writes back to registers, and a slice of L2 sends, in a cycle."""
_SINGLE = "SpeedOfLight_HierarchicalSingleRooflineChart"
_TENSOR = "SpeedOfLight_HierarchicalTensorRooflineChart"
_SECTIONS = {
    "fp16": "SpeedOfLight_HierarchicalHalfRooflineChart",
    "fp32": _SINGLE,
    "fp64": "SpeedOfLight_HierarchicalDoubleRooflineChart",
}
_L2, _L2_SENT = "lts__lts2xbar_cycles_active", "derived__lts__lts2xbar_bytes"
_GH100, _TU102 = frozenset({"gh100"}), frozenset({"tu102"})
_TCGEN05 = frozenset({"gb100", "gb110", "gb10b"})
_GB10X = _TCGEN05 - {"gb110"}
_SINCE_AMPERE, _SINCE_HOPPER = since("ga100"), since("gh100")
_AMPERE = _SINCE_AMPERE - _SINCE_HOPPER


def _rate(factor: float) -> Formula:
    """Make a formula for a value per cycle times cycles per second, times a factor."""
    return lambda values: values[0] * values[1] * factor


def _peak(
    raw: str, unit: str, factor: float, chips: frozenset[str] = EVERY_CHIP, *, requested: bool = True
) -> Source:
    """Return the source of the most that a unit can do in a second."""
    names = (f"{raw}.sum.peak_sustained", f"{unit}__cycles_elapsed.avg.per_second")
    return Source(names, _rate(factor), chips, requested)


_ceiling = partial(Metric, weight=("duration_us",), presets=("roofline",))


def _memory(name: str, explanation: str, *sources: Source) -> Metric:
    return _ceiling(f"ceiling.{name}", "GB/s", explanation, sources, section=_SINGLE)


def _cores(kind: str, letter: str, operations: int, types: str) -> Metric:
    source = _peak(f"sm__sass_thread_inst_executed_op_{letter}fma_pred_on", "sm", 1e-12 * operations)
    explanation = f"most {types} operations per second without tensor cores"
    return _ceiling(f"ceiling.{kind}", "TFLOP/s", explanation, (source,), section=_SECTIONS[kind])


def _tensor(kind: str, types: str, *spellings: tuple[frozenset[str], str]) -> Metric:
    """Return a ceiling of tensor cores, the narrowest spelling first.

    Reports of newer chips hold the names of older ones, too, whose peak is that of sparse matrices.
    """
    sources = tuple(_peak(f"sm__ops_path_tensor_{name}", "sm", 1e-12, chips) for chips, name in spellings)
    unit = "TOP/s" if kind == "int8" else "TFLOP/s"
    explanation = f"most dense {types} operations of tensor cores per second"
    return _ceiling(f"ceiling.tensor_{kind}", unit, explanation, sources, section=_TENSOR)


def _same_on(kind: str) -> tuple[tuple[frozenset[str], str], ...]:
    """Return the spellings of a type that Ampere, Hopper and Blackwell have."""
    return (
        (_GH100, f"op_hgmma_src_{kind}_sparsity_off"),
        (_TCGEN05, f"op_utchmma_src_{kind}_sparsity_off"),
        (_SINCE_HOPPER, f"op_hmma_src_{kind}_sparsity_off"),
        (_AMPERE, f"src_{kind}_sparsity_off"),
    )


def _writeback(part: str, chips: frozenset[str]) -> tuple[Source, Source]:
    """Return the sources of the traffic and of the ceiling of L1."""
    raw = f"l1tex__lsu_writeback_active{part}"
    traffic = Source((f"{raw}.sum",), scaled(L1_BYTES), chips)
    return traffic, _peak(raw, "l1tex", 1e-9 * L1_BYTES, chips)


_L1 = (
    _writeback("_mem_lgds", _SINCE_HOPPER),
    _writeback("_mem_lg", since("tu102") - _SINCE_HOPPER),
    _writeback("", EVERY_CHIP),
)


_traffic = partial(Metric, section=_SINGLE, combining=Combining.SUM, presets=("roofline",))


CEILINGS = (
    _traffic(
        "l1_writeback_bytes",
        "byte",
        "room of the cycles in which L1 returns data to registers (128 bytes each)",
        tuple(traffic for traffic, _ in _L1),
    ),
    _traffic(
        "l2_sent_bytes",
        "byte",
        "room of the cycles in which L2 sends data to the SMs (32 bytes each)",
        (
            Source((f"{_L2}.sum",), scaled(L2_BYTES)),
            # Reports with ncu's own sections hold the rate only.
            Source((f"{_L2_SENT}.sum.per_second", "gpu__time_duration.sum"), _rate(1e-9), requested=False),
        ),
    ),
    _memory("dram", "most bytes to and from DRAM per second", _peak("dram__bytes", "dram", 1e-9, OWN_MEMORY)),
    _memory(
        "l2",
        "most bytes that L2 sends per second",
        _peak(_L2, "lts", 1e-9 * L2_BYTES),
        _peak(_L2_SENT, "lts", 1e-9, requested=False),
    ),
    _memory("l1", "most bytes that L1 returns to registers per second", *(ceiling for _, ceiling in _L1)),
    _cores("fp16", "h", 4, "float16"),
    _cores("fp32", "f", 2, "float32"),
    _cores("fp64", "d", 2, "float64"),
    _tensor(
        "fp16",
        "float16",
        (_GH100, "op_hgmma_src_fp16_sparsity_off"),
        (_TCGEN05, "op_utchmma_src_fp16_dst_fp32_sparsity_off"),
        (_SINCE_HOPPER, "op_hmma_src_fp16_dst_fp32_sparsity_off"),
        (_AMPERE, "src_fp16_dst_fp32_sparsity_off"),
        (_TU102, "src_fp16_bf16_tf32_dst_fp32"),
        (but("tu102", "gh100"), "src_fp16_dst_fp32"),
    ),
    _tensor("bf16", "bfloat16", *_same_on("bf16_dst_fp32")),
    _tensor("tf32", "TF32", *_same_on("tf32_dst_fp32")),
    _tensor(
        "fp8",
        "float8",
        (frozenset({"ad102", "gh100"}), "src_fp8_sparsity_off"),
        (_GB10X, "op_utcqmma_src_fp4_fp6_fp8_dst_fp32_sparsity_off"),
        (frozenset({"gb110"}), "op_utcqmma_src_fp8_dst_fp32_sparsity_off"),
        (frozenset({"gb202", "gb20b"}), "src_fp8_dst_fp32_sparsity_off"),
    ),
    _tensor("fp64", "float64", (_SINCE_AMPERE, "src_fp64")),
    _tensor(
        "int8",
        "int8",
        (_GH100, "op_igmma_src_int8_sparsity_off"),
        (_GB10X, "op_utcimma_src_int8_sparsity_off"),
        (_SINCE_HOPPER, "op_imma_src_int8_sparsity_off"),
        (_AMPERE, "src_int8_sparsity_off"),
        (but("gv100"), "src_int8"),
    ),
)
