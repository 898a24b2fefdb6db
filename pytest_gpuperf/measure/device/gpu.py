"""Identity of the GPU."""

from __future__ import annotations

from contextlib import suppress

import pynvml
import torch

from pytest_gpuperf.measure.device.visible import slug
from pytest_gpuperf.records import GpuInfo


def gpu_info() -> GpuInfo:
    """Describe the current CUDA device."""
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    return GpuInfo(
        name=properties.name,
        slug=slug(properties.name),
        uuid=_uuid(str(properties.uuid)),
        compute_capability=f"{properties.major}.{properties.minor}",
        multiprocessors=properties.multi_processor_count,
        l2_bytes=properties.L2_cache_size,
        memory_bytes=properties.total_memory,
    )


def _uuid(bare: str) -> str:
    """Return a UUID in NVML's form: `GPU-…`, or `MIG-…` if CUDA's device is a slice of a GPU."""
    with suppress(pynvml.NVMLError):
        pynvml.nvmlInit()
        for kind in ("GPU", "MIG"):
            with suppress(pynvml.NVMLError):
                pynvml.nvmlDeviceGetHandleByUUID(f"{kind}-{bare}")
                return f"{kind}-{bare}"
    return f"GPU-{bare}"
