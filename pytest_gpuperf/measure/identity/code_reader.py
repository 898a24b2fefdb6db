"""Hash the code of the kernels that a call launches: from cubins and Triton kernels of this process."""

from __future__ import annotations

import gc
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from pytest_gpuperf.compat.triton_names import compiled_kernel_type, launches_noted
from pytest_gpuperf.measure.cupti.activity import recorded
from pytest_gpuperf.measure.cupti.libcupti import CuptiError
from pytest_gpuperf.measure.cupti.module_callbacks import watched_modules
from pytest_gpuperf.measure.cupti.ownership import kept_attached
from pytest_gpuperf.measure.device.synchronisation import finish
from pytest_gpuperf.measure.identity.cubin import Cubin
from pytest_gpuperf.measure.ncu.kernel_name import function_name
from pytest_gpuperf.records import LaunchedCode, LaunchedKernel

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_gpuperf.measure.cupti.activity import Activity
    from pytest_gpuperf.records.call import Call

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
            with launches_noted(functions.add), recorded() as activities:
                finish(call())
        except CuptiError as error:
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
        of_triton = compiled_kernels() if launches else {}
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


def _variants(one: Activity, compiled: list[Any], functions: set[object]) -> list[Cubin]:
    """Return the binaries of the variants of a Triton kernel that this launch may be."""
    # A replayed graph calls no hook.
    launched = [kernel for kernel in compiled if kernel.function in functions] or compiled
    alike = [
        kernel
        for kernel in launched
        if (kernel.metadata.shared, getattr(kernel, "n_regs", one.registers_per_thread))
        == (one.shared_memory_bytes, one.registers_per_thread)
    ]
    return [Cubin(kernel.asm["cubin"]) for kernel in alike or launched]


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


def compiled_kernels() -> dict[str, list[Any]]:
    """Return Triton's kernels of this process by name: each configuration and type makes a variant."""
    found: dict[str, list[Any]] = {}
    kind = compiled_kernel_type()
    if kind is None:
        return found
    # Triton's place for them differs by version; Inductor keeps its own.
    for thing in gc.get_referrers(kind):
        if type(thing) is kind:
            found.setdefault(thing.metadata.name, []).append(thing)
    return found
