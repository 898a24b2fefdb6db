"""CUPTI in this process: the library, and its use by this plugin.

A process has one CUPTI subscriber and one pair of callbacks for records. This plugin goes without if another
client has CUPTI, and gives it back. A process can only detach CUPTI
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
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pytest_gpuperf.compat.compiler_names import proton_profiles
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.ncu.ncu_failures import BUSY_ADVICE, PERMISSION_ADVICE
from pytest_gpuperf.processes.cuda_toolkit import package_paths, toolkits
from pytest_gpuperf.records.timing import OTHER_CLIENT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_gpuperf.measure.cupti.param_structs import AnyParams


WHEELS = "torch's CUDA wheels"
TOOLKIT = "the CUDA toolkit"
TRITON = "Triton's wheel"
_OF_TOOLKIT = ("extras/CUPTI/lib64", "lib64", "lib")

_OTHER_CLIENT = (
    "another profiler holds CUPTI in this process",
    "run without it: torch.profiler, proton, ncu, nsys, compute-sanitizer or cuda-gdb",
)
_REFUSED = "a later driver or its host may allow it; --gpuperf-counters=off only times"

_EXPLANATIONS: dict[int, tuple[str, str]] = {
    8: ("there is no memory left for CUPTI's replays", "profile a smaller shape"),
    15: (
        "CUPTI finds no driver that fits it, or not its own libnvperf libraries",
        "install the nvidia-cuda-cupti of torch's CUDA version, with no other on LD_LIBRARY_PATH",
    ),
    23: _OTHER_CLIENT,
    26: ("another process holds the GPU's counters (DCGM, ncu or a CUPTI client)", BUSY_ADVICE),
    27: ("CUPTI cannot profile on this GPU or system", ""),
    33: ("CUPTI does not profile this virtual GPU", _REFUSED),
    35: ("the driver denies hardware counters to this user", PERMISSION_ADVICE),
    36: _OTHER_CLIENT,
    38: ("CUPTI cannot profile on this GPU", "a GPU of compute capability 7.5 or later can be profiled"),
    39: _OTHER_CLIENT,
    40: ("the hypervisor denies hardware counters to this virtual GPU", "allow profiling for it on the host"),
    41: ("CUPTI does not profile in this mode of confidential computing", _REFUSED),
    42: ("CUPTI does not profile this mining processor", _REFUSED),
    43: ("CUPTI does not profile this slice of a GPU (MIG)", _REFUSED),
    44: ("CUPTI does not profile this SLI group", _REFUSED),
    45: ("CUPTI does not profile in this WSL", _REFUSED),
    46: ("this CUPTI is older than the GPU and does not know it", "install a torch for a later CUDA"),
}
"""Cause and advice by `CUptiResult` (`cupti_result.h`); other results are shown by CUPTI's own name."""


class CuptiError(GpuperfError):
    """CUPTI is missing, or refuses.

    Args:
        found: The state that was found.
        expected: The state that was expected instead.
        next_step: The next step for the user.
        code: The result of CUPTI; 0 if it was not called.
    """

    def __init__(self, found: str, *, expected: str = "", next_step: str = "", code: int = 0) -> None:
        super().__init__(found, expected=expected, next_step=next_step)
        self.code = code

    @property
    def is_unexplained(self) -> bool:
        """True for a result of CUPTI without a known cause."""
        return bool(self.code) and self.code not in _EXPLANATIONS


class Cupti:
    """The functions of one libcupti, with checked results."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.functions = ctypes.CDLL(str(path))

    def call(self, function: str, *arguments: object) -> None:
        """Call a function.

        Raises:
            CuptiError: The result is not CUPTI_SUCCESS, or this version lacks the function.
        """
        called = getattr(self.functions, function, None)
        if called is None:
            raise CuptiError(
                f"this CUPTI has no {function}",
                expected="that of CUDA 12.6 or later",
                next_step="install a torch for a later CUDA",
            )
        result = called(*arguments)
        if result:
            text = ctypes.c_char_p()
            self.functions.cuptiGetResultString(result, ctypes.byref(text))
            raise refusal(function, result, (text.value or b"").decode(errors="replace"))

    def ask(self, function: str, params: AnyParams) -> AnyParams:
        """Call a function of the profiling interface, which answers in its parameters.

        Raises:
            CuptiError: As `call`.
        """
        params.structSize = params.size()
        self.call(function, ctypes.byref(params))
        return params

    def load_neighbours(self, *names: str) -> None:
        """Load libraries from the folder of this one, before CUPTI looks for them itself.

        The search path of the system may have another version of them, or none.
        """
        for name in names:
            path = self.path.with_name(name)
            if path.is_file():
                # `ctypes.CDLL(path)` would hold Python's lock, for tenths of a second.
                ctypes.CDLL(None).dlopen(os.fsencode(path), os.RTLD_NOW | os.RTLD_GLOBAL)


def refusal(function: str, code: int, said: str = "") -> CuptiError:
    """Make the error for a failed call.

    Args:
        function: Name of the function.
        code: Its result, not CUPTI_SUCCESS.
        said: CUPTI's own name for the result.
    """
    cause, next_step = _EXPLANATIONS.get(code, ("", ""))
    failed = f"CUPTI's {function} failed: {said or code}"
    return CuptiError(f"{cause} ({failed})" if cause else failed, next_step=next_step, code=code)


@cache
def cupti() -> Cupti:
    """Load the libcupti that this process already uses, else a copy of torch or of the CUDA toolkit.

    Two copies in one process would not know of each other, so a loaded one comes first. That of Triton, which
    proton loads, comes after torch's.

    Raises:
        CuptiError: There is none.
    """
    loaded = sorted(_loaded(), key=lambda path: "triton" in path.parts)
    for path in (*loaded, *(path for source, path in copies() if source != TRITON)):
        return Cupti(path)
    raise CuptiError(
        "libcupti was not found",
        expected="a copy next to torch (nvidia-cuda-cupti) or in the CUDA toolkit",
        next_step="pip install nvidia-cuda-cupti",
    )


def _loaded() -> list[Path]:
    maps = Path("/proc/self/maps")
    lines = maps.read_text().splitlines() if maps.exists() else ()
    paths = (Path(line.split(maxsplit=5)[-1]) for line in lines if "libcupti.so" in line)
    return [path for path in dict.fromkeys(paths) if path.is_file()]


def copies() -> list[tuple[str, Path]]:
    """List the copies of this environment in the order to use them: the owner and the path of each."""
    # nvidia/cu13/lib from CUDA 13 on, nvidia/cuda_cupti/lib before.
    folders = {
        WHEELS: sorted(package_paths("nvidia", "*/lib"), key=lambda one: one.parts[-2], reverse=True),
        TOOLKIT: [root / below for root in toolkits() for below in _OF_TOOLKIT],
        TRITON: package_paths("triton", "backends/nvidia/lib/cupti*"),
    }
    return [
        (source, path)
        for source, some in folders.items()
        for folder in some
        # The longest name has the whole version; the others are links to it.
        for path in sorted(folder.glob("libcupti.so*"), reverse=True)[:1]
    ]


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
                by = "a session of Triton's proton" if proton_profiles() else "another profiler"
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
        if library is None or (_is_subscribed(library) and (self._kineto != "ran" or proton_profiles())):
            return False
        with suppress(RuntimeError):  # of a broken GPU
            from pytest_gpuperf.measure.device.originals import finish

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
