"""Arithmetic operations of a kernel by type, for a roofline."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pytest_gpuperf.metrics.metric import EVERY_CHIP, Combining, Metric, Source, Tier, since, total

if TYPE_CHECKING:
    from collections.abc import Sequence

# A multiply-add is two operations; a half-precision instruction does two of each.
_WEIGHTS = {"fp16": ("h", (2, 2, 4)), "fp32": ("f", (1, 1, 2)), "fp64": ("d", (1, 1, 2))}
_operations = partial(Metric, tier=Tier.NEAR_EXACT, combining=Combining.SUM)


def _on_cores(kind: str) -> Metric:
    letter, weights = _WEIGHTS[kind]
    names = tuple(
        f"smsp__sass_thread_inst_executed_op_{letter}{op}_pred_on.sum" for op in ("add", "mul", "fma")
    )
    # The roofline sections of ncu collect rates: operations of all schedulers per cycle.
    rates = (*(f"{name}.per_cycle_elapsed" for name in names), "smsp__cycles_elapsed.avg")

    def weighted(values: Sequence[float]) -> float:
        return sum(value * weight for value, weight in zip(values, weights, strict=False))

    return _operations(
        f"flops.{kind}",
        "op",
        f"{kind} operations without tensor cores; a multiply-add is two",
        (
            Source(names, weighted),
            Source(rates, lambda values: values[-1] * weighted(values), requested=False),
        ),
        section="SpeedOfLight_RooflineChart",
        presets=("roofline",),
    )


def _on_tensor_cores(name: str, types: str, *spellings: tuple[frozenset[str], tuple[str, ...]]) -> Metric:
    return _operations(
        f"flops.tensor_{name}",
        "op",
        f"{types} operations of tensor cores",
        tuple(
            Source(tuple(f"sm__ops_path_tensor_src_{part}.sum" for part in parts), total, chips)
            for chips, parts in spellings
        ),
        section="SpeedOfLight_HierarchicalTensorRooflineChart",
        presets=("tensor", "roofline"),
    )


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
