"""Launch marker kernels through the CUDA driver, which needs no compiler."""

from __future__ import annotations

import ctypes

import torch

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.sanitizer.markers import marker_ptx

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
        try:
            self._library = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise GpuperfError(f"the CUDA driver cannot be loaded: {error}") from None
        torch.cuda.synchronize()
        self._device = torch.cuda.current_device()
        address = ctypes.c_uint64()
        self._call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(_BYTES))
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
            module, kernel = ctypes.c_void_p(), ctypes.c_void_p()
            # The module is never unloaded: the tool may ask for its name later.
            self._call("cuModuleLoadData", ctypes.byref(module), marker_ptx(self._tool, name).encode())
            self._call("cuModuleGetFunction", ctypes.byref(kernel), module, name.encode())
            address = ctypes.c_uint64(self._unwritten + self._launched % _BYTES)
            arguments = (ctypes.c_void_p * 1)(ctypes.addressof(address))
            grid_block_and_shared = map(ctypes.c_uint, (1, 1, 1, _THREADS, 1, 1, 0))
            self._call("cuLaunchKernel", kernel, *grid_block_and_shared, None, arguments, None)
            torch.cuda.synchronize()
        self._launched += 1

    def _call(self, function: str, *arguments: object) -> None:
        result = getattr(self._library, function)(*arguments)
        if result:
            raise GpuperfError(f"the CUDA driver's {function} failed with error {result}")
