"""The CUDA driver: its functions, and kernels of our own, which need no compiler."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import NamedTuple

from pytest_gpuperf.errors import GpuperfError


class DriverError(GpuperfError):
    """The driver is missing, or refuses."""


@cache
def library() -> ctypes.CDLL:
    """Load the driver.

    Raises:
        DriverError: It cannot be loaded.
    """
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise DriverError(f"the CUDA driver cannot be loaded: {error}") from None


def call(function: str, *arguments: object) -> None:
    """Call a function of the driver.

    Raises:
        DriverError: The driver is missing, lacks the function, or refuses.
    """
    try:
        result = getattr(library(), function)(*arguments)
    except AttributeError:
        raise DriverError(f"the CUDA driver has no {function}") from None
    if result:
        raise DriverError(f"the CUDA driver's {function} failed with error {result}")


class Kernel(NamedTuple):
    """A kernel in torch's CUDA context. It is never unloaded."""

    handle: ctypes.c_void_p

    def launch(self, blocks: int, threads: int, argument: int, stream: int = 0) -> None:
        """Launch it.

        Args:
            blocks: Blocks of the grid.
            threads: Threads of a block.
            argument: Its only parameter, a `.u64`.
            stream: Handle of a stream; 0 is the default one.

        Raises:
            DriverError: The driver refuses.
        """
        value = ctypes.c_uint64(argument)
        arguments = (ctypes.c_void_p * 1)(ctypes.addressof(value))
        grid_block_and_shared = map(ctypes.c_uint, (blocks, 1, 1, threads, 1, 1, 0))
        call("cuLaunchKernel", self.handle, *grid_block_and_shared, ctypes.c_void_p(stream), arguments, None)


def load(ptx: str, name: str) -> Kernel:
    """Compile a kernel in the current context.

    Raises:
        DriverError: The driver refuses.
    """
    module, kernel = ctypes.c_void_p(), ctypes.c_void_p()
    try:
        call("cuModuleLoadData", ctypes.byref(module), ptx.encode())
    except DriverError as error:
        raise DriverError(error.found, expected="a GPU of compute capability 7.0 or later") from None
    call("cuModuleGetFunction", ctypes.byref(kernel), module, name.encode())
    return Kernel(kernel)
