"""The GPUs that this process may use, for processes that leave torch and the GPUs alone.

A child asks the CUDA driver: its order of GPUs, which `CUDA_VISIBLE_DEVICES` counts in, is not NVML's if they
are of several models. A process that asks the driver itself could not be forked any more.
"""

from __future__ import annotations

import ctypes
import re
import uuid
from contextlib import suppress
from typing import NamedTuple

import pynvml

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.device.driver import call
from pytest_gpuperf.processes.module_process import ask_apart, serve


class VisibleGpu(NamedTuple):
    """One GPU, or a slice of one."""

    uuid: str
    """As in `CUDA_VISIBLE_DEVICES`."""
    slug: str
    """Model: `nvidia-h200`."""


def visible_gpus() -> list[VisibleGpu]:
    """Return the GPUs of `CUDA_VISIBLE_DEVICES` in CUDA's order, or all; none without a driver."""
    lines = ask_apart(__name__, b"").stdout.decode(errors="replace").splitlines()
    found = (line.partition(" ") for line in lines)
    return [VisibleGpu(nvml_uuid(bare), slug(name)) for bare, _, name in found]


def nvml_uuid(bare: str) -> str:
    """Return a UUID in NVML's form: `GPU-…`, or `MIG-…` if CUDA's device is a slice of a GPU."""
    with suppress(pynvml.NVMLError):
        pynvml.nvmlInit()
        for kind in ("GPU", "MIG"):
            with suppress(pynvml.NVMLError):
                pynvml.nvmlDeviceGetHandleByUUID(f"{kind}-{bare}")
                return f"{kind}-{bare}"
    return f"GPU-{bare}"


def slug(name: str) -> str:
    """Turn a GPU's name into a folder name: `NVIDIA H200` -> `nvidia-h200`."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def _devices(_: bytes = b"") -> bytes:
    """Return a line with UUID and name for each GPU of the driver; none if there is no driver."""
    count, gpu = ctypes.c_int(), ctypes.c_int()
    number, name = ctypes.create_string_buffer(16), ctypes.create_string_buffer(256)
    lines: list[str] = []
    with suppress(GpuperfError):
        call("cuInit", 0)
        call("cuDeviceGetCount", ctypes.byref(count))
        for place in range(count.value):
            call("cuDeviceGet", ctypes.byref(gpu), place)
            # The second version tells a slice from its GPU.
            call("cuDeviceGetUuid_v2", number, gpu)
            call("cuDeviceGetName", name, len(name), gpu)
            lines.append(f"{uuid.UUID(bytes=number.raw)} {name.value.decode()}\n")
    return "".join(lines).encode()


def main() -> None:
    """Answer which GPUs there are."""
    serve(_devices)
