"""The plugin's use of CUPTI in this process: it goes without if another client has CUPTI, and gives it back.

CUPTI has one subscriber in a process and one pair of callbacks for records, and a process can only detach it
from all clients at once (`cuptiFinalize`). So the first client stays: a session of proton, say, asks CUPTI
again when it ends, and fails if CUPTI was detached. What this plugin enables lasts no longer than one of its
own measurements. Addresses of buffer callbacks that it has registered stay in CUPTI until it is detached
(`cuptiActivityRegisterCallbacks` takes no null pointers), so they are kept alive until then.

The first torch.profiler of a process subscribes, up to kineto of August 2026 (pytorch/kineto#1250). If it
cannot, no torch.profiler of the process ever records the GPU (pytorch/pytorch#191944). If it can, it stays
subscribed, which looks like a client that is at work.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
import tempfile
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Literal

from pytest_gpuperf.measure.cupti.libcupti import CuptiError, cupti
from pytest_gpuperf.measure.device.synchronisation import finish
from pytest_gpuperf.records.timing import OTHER_CLIENT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_gpuperf.measure.cupti.libcupti import Cupti

_MULTIPLE_SUBSCRIBERS = 39
"""`CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED` in cupti_result.h."""
_CUPTI_PYTHON = "cupti.cupti"
"""Module through which nsight-python 1.1 and torch's monitor use torch's libcupti, too. CUPTI cannot tell
whether it is in use: a client that only records need not subscribe."""

_OF_CUPTI = re.compile("cupti[A-Z]|CUPTI_ERROR")
"""Functions and results of CUPTI in the errors of its clients, as `Failed to execute cuptiSubscribe`."""

Callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, ctypes.c_void_p)
_NO_CALLBACK = Callback(lambda *_: None)


class Owner:
    """The only object that attaches CUPTI to the process and detaches it."""

    def __init__(self) -> None:
        self.callbacks: list[Any] = []
        """Objects whose functions CUPTI may still call."""
        self._library: Cupti | None = None
        self._kept = 0
        self._kineto: Literal["new", "ran", "gone"] = "new"
        """`ran`: it may be subscribed; `gone`: CUPTI was detached since, and it subscribes only once."""

    @contextmanager
    def attached(self, library: Cupti, *, stay: bool = False) -> Iterator[None]:
        """Attach CUPTI for the `with`.

        Args:
            library: CUPTI.
            stay: Leave it attached at the end.

        Raises:
            CuptiError: Another client has it, or the code inside fails because it wants CUPTI itself.
        """
        self.attach(library)
        try:
            with refused_clients():
                yield
        finally:
            if not stay and not self._kept:
                self.detach()

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Leave CUPTI attached from the first use inside the `with` to its end.

        To attach and detach it takes several times as long as to record a short block.
        """
        self._kept += 1
        try:
            yield
        finally:
            self._kept -= 1
            if self._library is not None:
                self.detach()

    def attach(self, library: Cupti) -> None:
        """Take CUPTI until `detach`.

        Raises:
            CuptiError: Another client has it or may have it.
        """
        why = _client_at_work()
        if not why and self._library is None:
            self.detach()
            if _is_subscribed(library):
                by = "a session of Triton's proton" if _proton_profiles() else "another profiler"
                why = f"{by} holds {OTHER_CLIENT}"
        if why:
            raise CuptiError(why, next_step="measure without it")
        self._library = library

    def is_lost(self) -> bool:
        """Return True if another client has come since CUPTI was attached: what is enabled is its own now."""
        if _client_at_work() or (self._library is not None and _is_subscribed(self._library)):
            self._library = None
        return self._library is None

    def detach(self) -> bool:
        """Detach CUPTI from the process, also after a torch.profiler that has ended, which slows graphs.

        torch does so with `TEARDOWN_CUPTI=1`, but in a thread that waits for a later call into CUDA: a
        process without such a call hangs at its end, and CUPTI may end while its next client uses it. This
        does nothing while another client has CUPTI. It cannot detect the warm-up step of a torch.profiler
        with a schedule, nor a subscriber that came after the first torch.profiler but before this plugin.

        Returns:
            False if nothing was done.
        """
        import torch

        library, self._library = self._library, None
        if _client_at_work() or not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            return False
        if self._kineto == "new" and kineto_has_run():
            self._kineto = "ran"
        if library is None and self._kineto != "new":
            with suppress(CuptiError):
                library = cupti()
        if library is None or (_is_subscribed(library) and (self._kineto != "ran" or _proton_profiles())):
            return False
        with suppress(RuntimeError):  # of a broken GPU
            finish()
        library.functions.cuptiFinalize()
        self.callbacks.clear()
        if self._kineto == "ran":
            self._kineto = "gone"
        return True


OWNER = Owner()
detach, kept_attached = OWNER.detach, OWNER.kept


@contextmanager
def refused_clients() -> Iterator[None]:
    """Turn an error about CUPTI of the code inside into one of this plugin, which then goes without CUPTI.

    Raises:
        CuptiError: The code inside could not use CUPTI.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, CuptiError) or not _OF_CUPTI.search(str(error)):
            raise
        raise CuptiError(f"the callable itself uses {OTHER_CLIENT} ({error})") from error


def _client_at_work() -> str:
    """Return which client has CUPTI, or may have it, without asking CUPTI; empty for none."""
    from pytest_gpuperf.compat.torch_names import profiler_runs

    if profiler_runs():
        return f"torch.profiler is running and holds {OTHER_CLIENT}"
    return f"cupti-python is imported and may use {OTHER_CLIENT}" if _CUPTI_PYTHON in sys.modules else ""


def _is_subscribed(library: Cupti) -> bool:
    """Return True if CUPTI has a subscriber."""
    subscriber = ctypes.c_void_p()
    try:
        library.call("cuptiSubscribe", ctypes.byref(subscriber), _NO_CALLBACK, None)
        library.call("cuptiUnsubscribe", subscriber)
    except CuptiError as error:
        return error.code == _MULTIPLE_SUBSCRIBERS
    return False


def _proton_profiles() -> bool:
    """Return True if a session of proton was started, and not all are finalised."""
    flags = getattr(sys.modules.get("triton.profiler.flags"), "flags", None)
    return bool(getattr(flags, "profiling_on", False))


def kineto_has_run() -> bool:
    """Return True if this process has started a torch.profiler, or if torch does not tell.

    torch has no question for it, but warns about metadata for a profiler that was never started.
    """
    from torch.profiler import ProfilerActivity, profile

    stderr = os.dup(2)
    with tempfile.TemporaryFile() as said:
        os.dup2(said.fileno(), 2)
        try:
            profile(activities=[ProfilerActivity.CPU]).add_metadata_json("gpuperf", "null")
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
        return not said.seek(0, os.SEEK_END)
