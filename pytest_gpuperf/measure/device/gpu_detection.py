"""Find out without torch if this machine can measure, for processes that leave the GPU to others."""

from __future__ import annotations

import ctypes
import os
import platform
import re
import sys
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import pynvml

from pytest_gpuperf.measure.device.visible_gpus import visible_gpus

RUNS_HERE = "here a replay and gpuperf.static run"


def may_measure() -> bool:
    """Return True if there is a GPU, and torch is built for its driver; torch itself has the last word."""
    if os.environ.get("CUDA_VISIBLE_DEVICES") == "" or sys.platform != "linux":
        return False
    built_for = _torch_for("cuda")
    if not built_for:
        return False
    try:
        pynvml.nvmlInit()
        driver: int = pynvml.nvmlSystemGetCudaDriverVersion()
        return bool(pynvml.nvmlDeviceGetCount()) and driver // 1000 >= built_for
    except pynvml.NVMLError:
        # A Jetson has no NVML, or a part of it; a machine without a driver is not worth the question.
        return not why_no_gpu() and bool(visible_gpus())


def why_no_gpu() -> str:
    """Return why torch cannot see a GPU here; empty if only torch can tell.

    The import of torch takes seconds, and its loggers slow pytest down at each test.
    """
    if sys.platform != "linux":
        return f"measuring needs Linux with an NVIDIA GPU, and this is {platform.system()}; {RUNS_HERE}"
    if os.environ.get("CUDA_VISIBLE_DEVICES") == "":
        return "CUDA_VISIBLE_DEVICES is empty"
    if find_spec("torch") is None:
        return "torch is not installed"
    if _torch_for("hip"):
        return f"measuring needs a torch for CUDA, and this one is for ROCm; {RUNS_HERE}"
    try:
        # Any CUDA runtime loads the driver by this name.
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "torch sees no CUDA GPU" if _torch_for("cuda") else "this torch was built without CUDA"
    return ""


def _torch_for(name: str) -> int:
    """Return the major version of `cuda`, or of AMD's `hip`, that torch was built with; 0 for none."""
    with suppress(ValueError, OSError):
        spec = find_spec("torch")
        if spec is None or not spec.origin:
            return 0
        text = Path(spec.origin).with_name("version.py").read_text(encoding="utf-8")
        found = re.search(rf"^{name}\b[^=]*=\s*['\"](\d+)", text, re.MULTILINE)
        return int(found[1]) if found else 0
    return 0
