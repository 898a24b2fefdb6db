"""Cubins that the driver loads, by CUPTI's callbacks: those of the runtime compiler and of libraries too."""

from __future__ import annotations

import ctypes
import sys
from contextlib import contextmanager, suppress
from functools import wraps
from typing import TYPE_CHECKING, Any

from pytest_gpuperf.measure.cupti.libcupti import CuptiError, cupti
from pytest_gpuperf.measure.cupti.ownership import OWNER, Callback

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# CUpti_CallbackDomain and CUpti_CallbackIdResource in cupti_callbacks.h.
_RESOURCE = 3
_MODULE_LOADED = 6


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

    A cubin that was loaded before is not seen. This subscribes, so it ends early if the code inside makes a
    torch.profiler, and does not begin once proton is imported: a session of it cannot be started twice.

    Args:
        take: Takes the copy; it is called while the driver loads.

    Raises:
        CuptiError: CUPTI is missing, another profiler uses it or may use it, or the code inside wants it.
    """
    library = cupti()
    if "triton.profiler" in sys.modules:
        raise CuptiError("Triton's proton is imported and may need CUPTI")

    def loaded(_user: int, domain: int, callback: int, data: int) -> None:
        if (domain, callback) != (_RESOURCE, _MODULE_LOADED):
            return
        module = _Module.from_address(_Resource.from_address(data).descriptor)
        if module.cubin and module.size:
            take(ctypes.string_at(module.cubin, module.size))

    called = Callback(loaded)
    subscriber = ctypes.c_void_p()

    def unsubscribe() -> None:
        if subscriber:
            with suppress(CuptiError):
                library.call("cuptiUnsubscribe", subscriber)
            subscriber.value = None

    with OWNER.attached(library):
        library.call("cuptiSubscribe", ctypes.byref(subscriber), called, None)
        try:
            enable = ctypes.c_uint32(1), subscriber, ctypes.c_int(_RESOURCE), ctypes.c_uint32(_MODULE_LOADED)
            library.call("cuptiEnableCallback", *enable)
            with _before_torch_profiler(unsubscribe):
                yield
        finally:
            unsubscribe()


@contextmanager
def _before_torch_profiler(give_way: Callable[[], None]) -> Iterator[None]:
    """Call a function before a torch.profiler is made, and can subscribe, inside the `with`."""
    from torch.autograd.profiler import profile

    make = profile.__init__

    @wraps(make)
    def made(*args: Any, **kwargs: Any) -> None:
        give_way()
        make(*args, **kwargs)

    profile.__init__ = made  # type: ignore[method-assign]
    try:
        yield
    finally:
        profile.__init__ = make  # type: ignore[method-assign]
