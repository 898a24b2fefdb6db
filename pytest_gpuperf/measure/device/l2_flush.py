"""Flush the L2, also of memory that stays across a flush: CUDA's persisting accesses.

A part of the L2 can be set aside for persisting accesses (`cudaLimitPersistingL2CacheSize`). Lines in it
outlive a flush by normal writes, the kernel that marked them, and the test. Source: CUDA C++ Programming
Guide, section "L2 Set-Aside Cache for Persisting Accesses".
"""

from __future__ import annotations

import ctypes
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import torch

from pytest_gpuperf.measure.device import originals
from pytest_gpuperf.measure.device.driver import (
    CU_LIMIT_PERSISTING_L2_CACHE_SIZE,
    CU_STREAM_ATTRIBUTE_ACCESS_POLICY_WINDOW,
    DriverError,
    call,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

FLUSHED_SIZES = 4
"""Sizes of the L2 that a flush reads: the L2 does not replace its oldest lines first."""
_ATTRIBUTE_BYTES = 64  # sizeof(CUstreamAttrValue)


def persisting_bytes() -> int:
    """Return the bytes of the L2 that are set aside for persisting accesses; 0 if unknown."""
    size = ctypes.c_size_t()
    return size.value if _done("cuCtxGetLimit", ctypes.byref(size), CU_LIMIT_PERSISTING_L2_CACHE_SIZE) else 0


def forget() -> None:
    """Make all persisting lines of the L2 normal ones, and set nothing aside.

    If nothing is set aside, nothing persists, and a reset would take 0.3 ms. Else it waits for the work so
    far: that may still write lines that persist.
    """
    if persisting_bytes():
        originals.synchronize()
        _set_aside(0)
        _done("cuCtxResetPersistingL2Cache")


@contextmanager
def set_aside_restored() -> Iterator[None]:
    """Restore the part of the L2 that was set aside."""
    before = persisting_bytes()
    try:
        yield
    finally:
        if persisting_bytes() != before:
            _set_aside(before)


@contextmanager
def reset_after() -> Iterator[None]:
    """Restore the part of the L2 that was set aside, and end what the block left persisting.

    That includes the access policy of the current stream.
    """
    with set_aside_restored():
        try:
            yield
        finally:
            if _done("cuCtxResetPersistingL2Cache"):
                none = ctypes.create_string_buffer(_ATTRIBUTE_BYTES)
                stream = ctypes.c_void_p(originals.current_stream().cuda_stream)
                _done("cuStreamSetAttribute", stream, CU_STREAM_ATTRIBUTE_ACCESS_POLICY_WINDOW, none)


def _set_aside(size: int) -> None:
    _done("cuCtxSetLimit", CU_LIMIT_PERSISTING_L2_CACHE_SIZE, ctypes.c_size_t(size))


def _done(function: str, *arguments: object) -> bool:
    """Call a function of the driver; False if it refuses, as for a GPU without persisting accesses."""
    with suppress(DriverError):
        call(function, *arguments)
        return True
    return False


class CleanFlush:
    """Fills the L2 of the current device with clean lines, by reads.

    ncu's flush leaves no data to be written, either: after a flush by writes, the next kernel would write
    them to DRAM, and the counters would have them.

    Args:
        l2_bytes: Size of the L2.
        device: Replaced in tests.
    """

    def __init__(self, l2_bytes: int, device: str = "cuda") -> None:
        self._memory = torch.zeros(FLUSHED_SIZES * l2_bytes, dtype=torch.int8, device=device)

    def __call__(self) -> None:
        """Queue the flush."""
        forget()
        originals.total(self._memory)
