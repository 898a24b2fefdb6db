"""Launch kernels of our own through the CUDA driver, which needs no compiler."""

from __future__ import annotations

import ctypes
from typing import NamedTuple

from pytest_gpuperf.errors import GpuperfError


class Kernel(NamedTuple):
    """A kernel in torch's CUDA context. It is never unloaded."""

    driver: Driver
    handle: ctypes.c_void_p

    def launch(self, blocks: int, threads: int, argument: int, stream: int = 0) -> None:
        """Launch it.

        Args:
            blocks: Blocks of the grid.
            threads: Threads of a block.
            argument: Its only parameter, a `.u64`.
            stream: Handle of a stream; 0 is the default one.

        Raises:
            GpuperfError: The driver refuses.
        """
        value = ctypes.c_uint64(argument)
        arguments = (ctypes.c_void_p * 1)(ctypes.addressof(value))
        grid_block_and_shared = map(ctypes.c_uint, (blocks, 1, 1, threads, 1, 1, 0))
        self.driver.call(
            "cuLaunchKernel", self.handle, *grid_block_and_shared, ctypes.c_void_p(stream), arguments, None
        )


class Driver:
    """The CUDA driver.

    Raises:
        GpuperfError: It cannot be loaded.
    """

    def __init__(self) -> None:
        try:
            self._library = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise GpuperfError(f"the CUDA driver cannot be loaded: {error}") from None

    def call(self, function: str, *arguments: object) -> None:
        """Call a function.

        Raises:
            GpuperfError: It does not return 0.
        """
        result = getattr(self._library, function)(*arguments)
        if result:
            raise GpuperfError(f"the CUDA driver's {function} failed with error {result}")

    def load(self, ptx: str, name: str) -> Kernel:
        """Compile a kernel in the current context.

        Raises:
            GpuperfError: The driver refuses.
        """
        module, kernel = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), ptx.encode())
        self.call("cuModuleGetFunction", ctypes.byref(kernel), module, name.encode())
        return Kernel(self, kernel)

    def allocate(self, size: int) -> int:
        """Return the address of new memory of this many bytes.

        Raises:
            GpuperfError: The driver refuses.
        """
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        return address.value
