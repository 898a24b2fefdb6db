"""Cubins that the driver loads, by CUPTI's callbacks: those of the runtime compiler and of libraries too."""

from __future__ import annotations

import ctypes
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from pytest_gpuperf.measure.cupti.activity import detach, refuse_if_taken
from pytest_gpuperf.measure.cupti.libcupti import CuptiError, cupti

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# CUpti_CallbackDomain and CUpti_CallbackIdResource in cupti_callbacks.h.
_RESOURCE = 3
_MODULE_LOADED = 6

_Callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, ctypes.c_void_p)


class _Module(ctypes.Structure):
    """CUpti_ModuleResourceData."""

    _fields_ = (
        ("id", ctypes.c_uint32),
        ("size", ctypes.c_size_t),
        ("cubin", ctypes.c_void_p),
    )


class _Resource(ctypes.Structure):
    """CUpti_ResourceData."""

    _fields_ = (
        ("context", ctypes.c_void_p),
        ("stream", ctypes.c_void_p),
        ("descriptor", ctypes.c_void_p),
    )


@contextmanager
def watched_modules(take: Callable[[bytes], object]) -> Iterator[None]:
    """Take a copy of each cubin that the driver loads inside the `with`.

    A cubin that was loaded before is not seen. CUPTI has one subscriber in a process, so it is detached at
    the end: torch.profiler may be the next.

    Args:
        take: Takes the copy; it is called while the driver loads.

    Raises:
        CuptiError: CUPTI is missing, or another profiler uses it or may use it.
    """
    library = cupti()
    refuse_if_taken()
    detach()

    def loaded(_user: int, domain: int, callback: int, data: int) -> None:
        if (domain, callback) != (_RESOURCE, _MODULE_LOADED):
            return
        module = _Module.from_address(_Resource.from_address(data).descriptor)
        if module.cubin and module.size:
            take(ctypes.string_at(module.cubin, module.size))

    called = _Callback(loaded)
    subscriber = ctypes.c_void_p()
    library.call("cuptiSubscribe", ctypes.byref(subscriber), called, None)
    try:
        enable = ctypes.c_uint32(1), subscriber, ctypes.c_int(_RESOURCE), ctypes.c_uint32(_MODULE_LOADED)
        library.call("cuptiEnableCallback", *enable)
        yield
    finally:
        with suppress(CuptiError):
            library.call("cuptiUnsubscribe", subscriber)
        detach()
