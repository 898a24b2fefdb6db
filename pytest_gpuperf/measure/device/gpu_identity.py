"""Identity of the GPU."""

from __future__ import annotations

import torch

from pytest_gpuperf.measure.device.visible_gpus import nvml_uuid, slug
from pytest_gpuperf.records import GpuInfo


def gpu_info() -> GpuInfo:
    """Describe the current CUDA device."""
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    return GpuInfo(
        name=properties.name,
        slug=slug(properties.name),
        uuid=nvml_uuid(str(properties.uuid)),
        compute_capability=f"{properties.major}.{properties.minor}",
        multiprocessors=properties.multi_processor_count,
        l2_bytes=properties.L2_cache_size,
        memory_bytes=properties.total_memory,
    )
