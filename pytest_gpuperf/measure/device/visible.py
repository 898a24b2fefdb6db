"""The GPUs that this process may use, by NVML, for processes that leave torch and the GPUs alone."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import NamedTuple

import pynvml


class VisibleGpu(NamedTuple):
    """One GPU, or a slice of one."""

    uuid: str
    slug: str
    """Model: `nvidia-h200`."""
    entry: str
    """Entry of `CUDA_VISIBLE_DEVICES` that shows only this one."""


def visible_gpus() -> list[VisibleGpu]:
    """Return the GPUs of `CUDA_VISIBLE_DEVICES` in its order, or all; none without a driver.

    As in CUDA, an entry that names no GPU hides itself and those after it.
    """
    with suppress(pynvml.NVMLError):
        pynvml.nvmlInit()
        named = os.environ.get("CUDA_VISIBLE_DEVICES")
        if named is None:
            return [_gpu(str(index)) for index in range(pynvml.nvmlDeviceGetCount())]
        found: list[VisibleGpu] = []
        with suppress(pynvml.NVMLError):
            found.extend(_gpu(entry.strip()) for entry in named.split(","))
        return found
    return []


def _gpu(entry: str) -> VisibleGpu:
    if entry.isdecimal():
        handle = pynvml.nvmlDeviceGetHandleByIndex(int(entry))
    else:
        handle = pynvml.nvmlDeviceGetHandleByUUID(entry)
    name = str(pynvml.nvmlDeviceGetName(handle))
    uuid = str(pynvml.nvmlDeviceGetUUID(handle))
    return VisibleGpu(uuid, slug(name), entry)


def slug(name: str) -> str:
    """Turn a GPU's name into a folder name: `NVIDIA H200` -> `nvidia-h200`."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
