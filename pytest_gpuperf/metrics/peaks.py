"""Peak rates of a GPU: DRAM, L2 and tensor cores, each an upper bound for any kernel.

DRAM: two transfers a cycle of the memory clock over the whole bus, both as NVML reports them: for an H200
2 · 3201 MHz · 6016 bit = 4.81 TB/s, as ncu's `dram__bytes.sum.peak_sustained`; the data sheet rounds it.

L2: bytes that its slices pass in a cycle (ncu's `lts__t_bytes.sum.peak_sustained`: 96 in each of at most 96
slices of GH100; 5120 in GA100, as in NVIDIA's whitepaper), at the SM clock, which L2's does not exceed.

Tensor cores: operations of an SM in a cycle in the fastest type of the chip, with 2:4 sparsity, by NVIDIA's
whitepapers of Volta, Turing, Ampere, Ada and Hopper; on GH100 the same as ncu's `sm__ops_path_tensor_src_*`.
A chip that is missing here has no peak.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from pytest_gpuperf.metrics.chips import chip_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_gpuperf.records import GpuInfo, Timing

L2_BYTES: Mapping[str, int] = {"ga100": 5120, "gh100": 9216}
"""Bytes that L2 passes in a cycle, by chip."""
FLOAT16: Mapping[str, int] = {
    "gv100": 1024,
    "tu102": 1024,
    "ga100": 2048,
    "ga102": 1024,
    "ad102": 1024,
    "gh100": 4096,
}
"""Dense float16 operations of an SM's tensor cores in a cycle, by chip; a multiply-add is two."""
FASTEST: Mapping[str, int] = {"gv100": 1, "tu102": 4, "ga100": 8, "ga102": 8, "ad102": 8, "gh100": 4}
"""Operations in the fastest type (int4, float8 on Hopper), sparse if possible, over those in float16."""
SPARSE = 2
"""Operations that sparsity saves, over those that remain."""
OF_TYPE: Mapping[str, float] = {
    "flops.tensor_fp16": 1,
    "flops.tensor_bf16": 1,
    "flops.tensor_tf32": 1 / 2,
    "flops.tensor_fp8": 2,
    "flops.tensor_int8": 2,
}
"""Rate of a type over that of float16, by the metric that counts its operations."""


def with_peaks(timing: Timing, gpu: GpuInfo) -> Timing:
    """Return a time with the peak rates of its GPU, for its shares of them."""
    peaks = peaks_of(gpu, highest_mhz(timing))
    work = replace(
        timing.work,
        peak_gb_per_s=peaks.dram_gb_per_s or None,
        peak_tflop_per_s=peaks.float16_tflop_per_s / SPARSE or None,
    )
    return replace(timing, work=work)


def highest_mhz(timing: Timing) -> float:
    """Return the highest SM clock that is known of a time's GPU, in MHz; 0 if none is."""
    known = timing.conditions.max_sm_clock_mhz if timing.conditions is not None else 0
    return max(known, *timing.blocks_mhz, 0) if known else 0.0


class Peaks(msgspec.Struct, frozen=True, gc=False):
    """Peak rates of one GPU; 0 if not known."""

    dram_gb_per_s: float = 0.0
    l2_gb_per_s: float = 0.0
    tflop_per_s: float = 0.0
    """In the fastest type."""
    float16_tflop_per_s: float = 0.0
    """With sparsity."""


def peaks_of(gpu: GpuInfo, sm_clock_mhz: float) -> Peaks:
    """Return the peak rates of a GPU.

    Args:
        gpu: The GPU.
        sm_clock_mhz: Its highest SM clock; 0 if unknown.
    """
    chip = chip_of(gpu.compute_capability)
    name = chip.name if chip is not None else ""
    float16 = 1e-6 * FLOAT16.get(name, 0) * gpu.multiprocessors * sm_clock_mhz
    return Peaks(
        dram_gb_per_s=gpu.dram_gb_per_s,
        l2_gb_per_s=1e-3 * L2_BYTES.get(name, 0) * sm_clock_mhz,
        tflop_per_s=float16 * FASTEST.get(name, 0),
        float16_tflop_per_s=float16 * SPARSE,
    )
