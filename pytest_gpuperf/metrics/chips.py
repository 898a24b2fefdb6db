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

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from pytest_gpuperf.errors import GpuperfError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_gpuperf.records import GpuInfo, Timing

Feature: TypeAlias = Literal["tensor cores", "TF32"]


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


OLDER = "older"
"""Name for all chips before GV100, which have none of the features."""
_SINCE: Mapping[Feature, str] = {"tensor cores": "7.0", "TF32": "8.0"}
"""First compute capability with each feature (CUDA programming guide)."""
_SMALL_TURING = re.compile(r"GTX 16\d\d|\bMX\d{3}\b|\bT(?:400|500|550|600|1000|1200|2000)\b", re.IGNORECASE)
"""Names of GPUs with TU116 or TU117, which lack tensor cores."""


def chip_name(compute_capability: str, gpu: str = "") -> str:
    """Return the name of a GPU's chip as the rules of a diagnosis know it; empty if unknown.

    Args:
        compute_capability: `9.0`.
        gpu: Name of the GPU in the driver, which tells TU116 and TU117 from the rest of Turing.
    """
    if compute_capability == "7.5" and _SMALL_TURING.search(gpu):
        return "tu116"
    chip = chip_of(compute_capability)
    if chip is not None:
        return chip.name
    return OLDER if re.fullmatch(r"[1-6]\.\d", compute_capability) else ""


def has(chip: str, feature: Feature) -> bool | None:
    """Return True if a chip has a feature; None if the chip is unknown.

    Args:
        chip: `gh100`, `tu116` or `older`; empty if unknown.
        feature: One of them.
    """
    if chip == OLDER:
        return False
    found = next((one for one in CHIPS if chip in (one.name, *one.others)), None)
    if found is None:
        return None
    if feature == "tensor cores" and chip in ("tu116", "tu117"):
        return False
    own, first = (tuple(map(int, text.split("."))) for text in (found.compute_capability, _SINCE[feature]))
    return own >= first


def chip_of(compute_capability: str) -> Chip | None:
    """Find the chip of a compute capability such as `9.0`; None if it is unknown."""
    return _BY_CAPABILITY.get(compute_capability)


def find_chip(text: str) -> Chip:
    """Find the chip that a user names.

    Args:
        text: `gh100`, `GA104`, `9.0`, or a family: `ga10x`.

    Raises:
        GpuperfError: No chip has that name.
    """
    wanted = text.lower()
    for chip in CHIPS:
        if wanted in (chip.name, chip.compute_capability, *chip.others):
            return chip
    raise GpuperfError(
        f"there is no chip {text!r}",
        expected=f"one of {', '.join(chip.name for chip in CHIPS)}, or a compute capability such as 9.0",
    )


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
