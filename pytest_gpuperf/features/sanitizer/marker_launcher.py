"""Launch marker kernels through the CUDA driver, which needs no compiler."""

from __future__ import annotations

import ctypes

import torch

from pytest_gpuperf.features.sanitizer.markers import marker_ptx
from pytest_gpuperf.measure.device import driver

_THREADS = 64
_BYTES = 1 << 16
"""Size of the memory that nobody writes; each marker reads another byte of it."""


class MarkerLauncher:
    """Launches markers in torch's CUDA context.

    Args:
        tool: Tool whose kind of error the markers make.

    Raises:
        GpuperfError: The driver refuses.
        RuntimeError: Raised by torch if an earlier kernel has ended the CUDA context.
    """

    def __init__(self, tool: str) -> None:
        self._tool = tool
        torch.cuda.synchronize()
        self._device = torch.cuda.current_device()
        address = ctypes.c_uint64()
        driver.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(_BYTES))
        self._unwritten = address.value
        self._launched = 0

    def launch(self, name: str) -> None:
        """Wait for earlier launches, launch a marker of this name, and wait for it.

        Raises:
            GpuperfError: The driver refuses.
            RuntimeError: Raised by torch if an earlier kernel has ended the CUDA context.
        """
        torch.cuda.synchronize()
        # A test may have switched to another device, which cannot access the memory.
        with torch.cuda.device(self._device):
            # It is never unloaded: the tool may ask for its name later.
            kernel = driver.load(marker_ptx(self._tool, name), name)
            kernel.launch(1, _THREADS, self._unwritten + self._launched % _BYTES)
            torch.cuda.synchronize()
        self._launched += 1
