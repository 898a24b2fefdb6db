"""Arithmetic operations of a kernel by type, for a roofline."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING

from pytest_gpuperf.metrics.metric import EVERY_CHIP, Combining, Metric, Source, Tier, since, total

if TYPE_CHECKING:
    from pytest_gpuperf.metrics.metric import Formula

_ROOFLINE = "SpeedOfLight_RooflineChart"
_TENSOR_ROOFLINE = "SpeedOfLight_HierarchicalTensorRooflineChart"

# A multiply-add is two operations; a half-precision instruction does two of each.
_WEIGHTS = {"fp16": ("h", (2, 2, 4)), "fp32": ("f", (1, 1, 2)), "fp64": ("d", (1, 1, 2))}


def _operations(name: str, section: str, explanation: str, *sources: Source) -> Metric:
    return Metric(
        f"flops.{name}",
        "op",
        section,
        explanation,
        sources,
        tier=Tier.NEAR_EXACT,
        combining=Combining.SUM,
        presets=("tensor", "roofline") if name.startswith("tensor_") else ("roofline",),
    )


def _from_rates(weights: tuple[int, ...]) -> Formula:
    return lambda values: values[-1] * sum(map(operator.mul, values[:-1], weights))


def _on_cores(kind: str) -> Metric:
    letter, weights = _WEIGHTS[kind]
    names = tuple(
        f"smsp__sass_thread_inst_executed_op_{letter}{op}_pred_on.sum" for op in ("add", "mul", "fma")
    )
    # The roofline sections of ncu collect rates: operations of all schedulers per cycle.
    rates = tuple(f"{name}.per_cycle_elapsed" for name in names)
    return _operations(
        kind,
        _ROOFLINE,
        f"{kind} operations without tensor cores; a multiply-add is two",
        Source(names, lambda values: sum(map(operator.mul, values, weights))),
        Source((*rates, "smsp__cycles_elapsed.avg"), _from_rates(weights), requested=False),
    )


def _on_tensor_cores(name: str, types: str, *spellings: tuple[frozenset[str], tuple[str, ...]]) -> Metric:
    sources = (
        Source(tuple(f"sm__ops_path_tensor_src_{part}.sum" for part in parts), total, chips)
        for chips, parts in spellings
    )
    return _operations(f"tensor_{name}", _TENSOR_ROOFLINE, f"{types} operations of tensor cores", *sources)


_GH100, _TU102 = frozenset({"gh100"}), frozenset({"tu102"})
_SINCE_AMPERE = since("ga100")

ARITHMETIC = (
    *map(_on_cores, _WEIGHTS),
    _on_tensor_cores(
        "fp16",
        "float16",
        (_GH100, ("fp16",)),
        (_TU102, ("fp16_dst_fp16", "fp16_bf16_tf32_dst_fp32")),
        (EVERY_CHIP - _GH100 - _TU102, ("fp16_dst_fp16", "fp16_dst_fp32")),
    ),
    _on_tensor_cores("bf16", "bfloat16", (_SINCE_AMPERE, ("bf16_dst_fp32",))),
    _on_tensor_cores("tf32", "TF32", (_SINCE_AMPERE, ("tf32_dst_fp32",))),
    _on_tensor_cores(
        "fp8",
        "float8 (with float6 and float4 on GB100 and GB10B)",
        (frozenset({"ad102", "gh100"}), ("fp8",)),
        (frozenset({"gb110", "gb202", "gb20b"}), ("fp8_dst_fp16", "fp8_dst_fp32")),
        (frozenset({"gb100", "gb10b"}), ("fp4_fp6_fp8_dst_fp16", "fp4_fp6_fp8_dst_fp32")),
    ),
    _on_tensor_cores("fp64", "float64", (_SINCE_AMPERE, ("fp64",))),
    _on_tensor_cores("int8", "int8", (EVERY_CHIP - {"gv100"}, ("int8",))),
)
