"""GPU chips by the names of ncu and CUPTI, and their peak rates: each an upper bound for any kernel.

Chips differ in metrics, and in the passes of a metric.

DRAM: two transfers a cycle of the memory clock over the whole bus, both as NVML reports them: for an H200
2 · 3201 MHz · 6016 bit = 4.81 TB/s, as ncu's `dram__bytes.sum.peak_sustained`; the data sheet rounds it.

L2: bytes that its slices pass in a cycle (ncu's `lts__t_bytes.sum.peak_sustained`: 96 in each of at most 96
slices of GH100; 5120 in GA100, as in NVIDIA's whitepaper), at the SM clock, which L2's does not exceed.

Tensor cores: operations of an SM in a cycle in the fastest type of the chip, with 2:4 sparsity, by NVIDIA's
whitepapers of Volta, Turing, Ampere, Ada and Hopper; on GH100 the same as ncu's `sm__ops_path_tensor_src_*`.
A chip without these numbers has no peak.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_gpuperf.records import GpuInfo, Timing


@dataclass(frozen=True)
class Chip:
    """A chip, and the others with the same compute capability and metrics."""

    name: str
    """The name for `ncu --chips`: `gh100`."""
    compute_capability: str
    """`9.0`."""
    others: tuple[str, ...] = ()
    """The family and its other chips. CUPTI has the same list of metrics for all of them, except TU116 and
    TU117, which lack tensor cores."""
    l2_bytes: int = 0
    """Bytes that L2 passes in a cycle; 0 if unknown."""
    float16: int = 0
    """Dense float16 operations of an SM's tensor cores in a cycle; a multiply-add is two. 0 if unknown."""
    fastest: int = 0
    """Operations in the fastest type (int4, float8 on Hopper), sparse if possible, over those in float16."""

    def __str__(self) -> str:
        """Return the usual spelling: `GH100`."""
        return self.name.upper()


CHIPS = (
    Chip("gv100", "7.0", float16=1024, fastest=1),
    Chip("tu102", "7.5", ("tu10x", "tu104", "tu106", "tu116", "tu117"), float16=1024, fastest=4),
    Chip("ga100", "8.0", l2_bytes=5120, float16=2048, fastest=8),
    Chip("ga102", "8.6", ("ga10x", "ga103", "ga104", "ga106", "ga107"), float16=1024, fastest=8),
    Chip("ga10b", "8.7"),
    Chip("ad102", "8.9", ("ad10x", "ad103", "ad104", "ad106", "ad107"), float16=1024, fastest=8),
    Chip("gh100", "9.0", l2_bytes=9216, float16=4096, fastest=4),
    Chip("gb100", "10.0", ("gb10x", "gb102")),
    Chip("gb110", "10.3", ("gb11x", "gb112")),
    Chip("gb10b", "11.0"),
    Chip("gb202", "12.0", ("gb20x", "gb203", "gb205", "gb206", "gb207")),
    Chip("gb20b", "12.1", ("gb20c",)),
)
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
_BY_CAPABILITY = {chip.compute_capability: chip for chip in CHIPS}


def chip_of(compute_capability: str) -> Chip | None:
    """Find the chip of a compute capability such as `9.0`; None if it is unknown."""
    return _BY_CAPABILITY.get(compute_capability)


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
    chip = chip_of(gpu.compute_capability) or Chip("", "")
    float16 = 1e-6 * chip.float16 * gpu.multiprocessors * sm_clock_mhz
    return Peaks(
        dram_gb_per_s=gpu.dram_gb_per_s,
        l2_gb_per_s=1e-3 * chip.l2_bytes * sm_clock_mhz,
        tflop_per_s=float16 * chip.fastest,
        float16_tflop_per_s=float16 * SPARSE,
    )
