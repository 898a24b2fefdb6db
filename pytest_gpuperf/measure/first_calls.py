"""What the first calls of a callable tell: compilers, memory, autotuners, and the code of the kernels.

The code is hashed: it comes from cubins that the driver loads, seen by CUPTI's callbacks (those of the
runtime compiler and of libraries too), and from the Triton kernels of this process.
"""

from __future__ import annotations

import ctypes
import sys
from contextlib import contextmanager, nullcontext, suppress
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, TypeVar
from unittest.mock import patch

import torch
from msgspec.structs import replace

from pytest_gpuperf.compat import compiler_names, torch_names
from pytest_gpuperf.measure.correctness.call_tensors import values_in
from pytest_gpuperf.measure.counters.counter_source import function_name
from pytest_gpuperf.measure.cubin_hash import Cubin
from pytest_gpuperf.measure.cupti.activity import recorded
from pytest_gpuperf.measure.cupti.libcupti import OWNER, Callback, CuptiError, cupti, kept_attached
from pytest_gpuperf.measure.device import originals
from pytest_gpuperf.measure.device.memory import peak_requested
from pytest_gpuperf.measure.device.originals import finish
from pytest_gpuperf.records import LaunchedCode, LaunchedKernel
from pytest_gpuperf.records.timing import Autotuning, CompilerWork, FirstCall

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pytest_gpuperf.compat.compiler_names import CompiledKernel
    from pytest_gpuperf.measure.cupti.activity import Activity
    from pytest_gpuperf.records import Timing
    from pytest_gpuperf.records.call import Call


BYTES_OF_MB = 1e6
WATCHED = 2
"""The first call compiles, autotunes and keeps workspaces; the second one does what later ones do."""


class FirstCalls:
    """Watches the first calls of a callable, when it is checked and before it is timed."""

    def __init__(self) -> None:
        self._seconds: float | None = None
        self._compilers: dict[str, CompilerWork] = {}
        self._autotuned: tuple[str, ...] = ()
        self._peak_memory_mb: float | None = None

    def watched(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that calls `fn`, and watches two calls."""
        seconds: list[float] = []
        self._peak_memory_mb = None

        def call(*args: Any, **kwargs: Any) -> Any:
            if len(seconds) == WATCHED:
                return fn(*args, **kwargs)
            picked: dict[str, None] = {}
            with (
                compiler_names.choices_noted(lambda kernel, config: picked.setdefault(f"{kernel}: {config}")),
                nullcontext() if seconds else self._compilations_noted(),
                peak_requested() as peak,
            ):
                begin = originals.now()
                value = fn(*args, **kwargs)
                finish(value)
                seconds.append(originals.now() - begin)
            # What a replayed graph has chosen shows in the call before.
            self._autotuned = tuple(sorted(picked)) or self._autotuned
            # Without memory of torch nothing is known: other libraries have allocators of their own.
            is_known = any(isinstance(one, torch.Tensor) for one in values_in([args, kwargs]))
            if len(seconds) == WATCHED:
                # Other arguments than those of the check may be compiled for again.
                self._seconds = (self._seconds or 0.0) + max(0.0, seconds[0] - seconds[1])
                self._peak_memory_mb = next((one / BYTES_OF_MB for one in peak if one or is_known), None)
            return value

        return call

    @contextmanager
    def _compilations_noted(self) -> Iterator[None]:
        with (
            compiler_names.triton_compilations_noted(partial(self._add, "triton")),
            torch_names.compilations_noted(partial(self._add, "inductor")),
            compiler_names.nvrtc_compilations_noted(partial(self._add, "nvrtc")),
        ):
            yield

    def _add(self, compiler: str, seconds: float, compiled: int, cached: int) -> None:
        known = self._compilers.get(compiler, CompilerWork())
        self._compilers[compiler] = CompilerWork(
            seconds=round(known.seconds + seconds, 3),
            compiled=known.compiled + compiled,
            cached=known.cached + cached,
        )

    def added_to(self, timing: Timing) -> Timing:
        """Return a timing of the callable with what its first calls have told."""
        first_call = None
        if self._seconds is not None:
            first_call = FirstCall(seconds=round(self._seconds, 3), compilers=self._compilers)
        return replace(
            timing,
            first_call=first_call,
            autotuning=Autotuning(chosen=self._autotuned),
            work=replace(timing.work, peak_memory_mb=self._peak_memory_mb),
        )


MOST_KERNELS = 100
"""Maximum number of distinct kernels and configurations of a call."""
Result = TypeVar("Result")
MOST_BYTES = 512 << 20
"""Bytes of all cubins that are held: those of libraries have many MB, and each has thousands of kernels."""
_ELF = b"\x7fELF"


class CodeReader:
    """Knows the code that this process has loaded.

    Args:
        driver: Version of the driver.
    """

    def __init__(self, driver: str) -> None:
        self._driver = driver
        self._modules = LoadedModules()

    def watched(self, nodeid: str, run: Callable[[], Result]) -> Result:
        """Run a function of a test, and hold the code that it loads.

        Without CUPTI it only runs. It runs again if it fails because it uses CUPTI itself.
        """
        self._modules.test = nodeid
        with suppress(CuptiError), watched_modules(self._modules.take):
            return run()
        return run()

    def read(self, call: Call) -> LaunchedCode:
        """Run a call twice, and return the kernels of the second run.

        There are none if it raises an exception: the timing will raise it, too.
        """
        with kept_attached():
            return self._read(call)

    def _read(self, call: Call) -> LaunchedCode:
        try:
            # The first call compiles, and autotuners launch configurations that they do not choose.
            self.watched(call.nodeid, lambda: finish(call()))
        except Exception as error:
            why = f"the call raises {type(error).__name__}"
            return LaunchedCode(driver=self._driver, unavailable=why)
        functions: set[object] = set()
        try:
            with compiler_names.launches_noted(functions.add), recorded() as activities:
                finish(call())
        except CuptiError as error:
            # The second call tells memory and seconds, which need no CUPTI.
            with suppress(Exception):
                finish(call())
            return LaunchedCode(driver=self._driver, unavailable=error.found)
        kernels, why = self._kernels(activities, functions)
        why = why if activities else "CUPTI recorded nothing"
        return LaunchedCode(kernels=kernels, driver=self._driver, unavailable=why)

    def _kernels(
        self, activities: Sequence[Activity], functions: set[object]
    ) -> tuple[tuple[LaunchedKernel, ...], str]:
        launches: dict[Activity, int] = {}
        for one in activities:
            if one.name:
                alike = one._replace(start_ns=0, end_ns=0, launch=0, stream=0, shared_memory_per_sm=0)
                launches[alike] = launches.get(alike, 0) + 1
        if len(launches) > MOST_KERNELS:
            return (), f"a call launches {len(launches)} different kernels, more than {MOST_KERNELS}"
        of_triton = compiler_names.compiled_kernels() if launches else {}
        return tuple(
            self._kernel(one, count, _variants(one, of_triton.get(one.symbol, []), functions))
            for one, count in launches.items()
        ), ""

    def _kernel(self, one: Activity, count: int, triton: list[Cubin]) -> LaunchedKernel:
        cubins = triton or [
            cubin
            for cubin in self._modules.having(one.symbol)
            if cubin.registers(one.symbol) in (0, one.registers_per_thread)
        ]
        codes = {cubin.code_hash(one.symbol): cubin for cubin in cubins}
        # Code of one of several that fit would be a guess.
        code, cubin = codes.popitem() if len(codes) == 1 else ("", None)
        return LaunchedKernel(
            name=function_name(one.name),
            code=code,
            grid=one.grid,
            block=one.block,
            cluster=one.cluster,
            shared_memory_bytes=one.shared_memory_bytes,
            registers_per_thread=one.registers_per_thread,
            local_bytes=one.local_bytes,
            code_bytes=len(cubin.instructions(one.symbol)) if cubin is not None else 0,
            launches=count,
        )


def _variants(one: Activity, compiled: list[CompiledKernel], functions: set[object]) -> list[Cubin]:
    """Return the binaries of the variants of a Triton kernel that this launch may be."""
    known = [kernel for kernel in compiled if kernel.cubin]
    # A replayed graph calls no hook.
    launched = [kernel for kernel in known if kernel.function in functions] or known
    alike = [
        kernel
        for kernel in launched
        if kernel.shared_memory_bytes in (None, one.shared_memory_bytes)
        and kernel.registers in (None, one.registers_per_thread)
    ]
    return [Cubin(kernel.cubin) for kernel in alike or launched]


class LoadedModules:
    """Holds cubins until their kernels are launched.

    Args:
        most_bytes: Bytes to hold; the oldest cubins go first.
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._cubins: list[tuple[str, Cubin]] = []
        self._bytes = 0
        self.test = ""
        """Node id of the present test."""

    def take(self, data: bytes) -> None:
        """Hold a cubin; anything else that the driver loads is left out."""
        if not data.startswith(_ELF) or len(data) > self._most_bytes:
            return
        self._cubins.append((self.test, Cubin(data)))
        self._bytes += len(data)
        while self._bytes > self._most_bytes:
            _, oldest = self._cubins.pop(0)
            self._bytes -= oldest.size

    def having(self, kernel: str) -> list[Cubin]:
        """Return the cubins with a kernel: those that the present test has loaded, else all.

        Two modules of a project may have kernels of one name.

        Args:
            kernel: Name in the cubin, mangled for C++.
        """
        found = [(test, cubin) for test, cubin in self._cubins if cubin.has(kernel)]
        own = [cubin for test, cubin in found if test == self.test]
        return own or [cubin for _, cubin in found]


# CUpti_CallbackDomain and CUpti_CallbackIdResource in cupti_callbacks.h.
_RESOURCE = 3
_MODULE_LOADED = 6


class _Module(ctypes.Structure):
    """CUpti_ModuleResourceData."""

    _fields_ = (("id", ctypes.c_uint32), ("size", ctypes.c_size_t), ("cubin", ctypes.c_void_p))


class _Resource(ctypes.Structure):
    """CUpti_ResourceData."""

    _fields_ = (("context", ctypes.c_void_p), ("stream", ctypes.c_void_p), ("descriptor", ctypes.c_void_p))


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

    with patch.object(profile, "__init__", made):
        yield
