"""Private names of compilers for the GPU, with the loss without them: Triton, and libraries that call NVRTC.

Nothing here imports Triton before a test has done so, except for what compiles without a GPU. Nothing here
imports this package: the server of side processes runs this file alone.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
import time
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest.mock import patch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

INDUCTOR = ("torch._dynamo", "torch._inductor.compile_fx")
"""Modules of torch that the first call of a compiled function imports, which takes seconds."""
FIRST_LAUNCH = "triton.experimental.gluon.nvidia.hopper"
"""Module that the first launch of a Triton kernel imports, if Triton has it."""
HASHES = (
    ("triton.runtime.cache", "triton_key"),
    ("triton.compiler.compiler", "triton_key"),  # in older versions
    ("torch._inductor.codecache", "torch_key"),
)
"""Modules and functions that hash the files of a compiler, hundreds of megabytes, once in a process."""


@contextmanager
def launches_noted(note: Callable[[object], object]) -> Iterator[None]:
    """Set `launch_enter_hook` of `triton.knobs.runtime`, or before Triton 3.4 of `CompiledKernel`.

    Without it the code of a launch is not known, only its name. Another profiler's hook sees the other
    launches.

    Args:
        note: Gets the driver's handle of each kernel that Triton launches.
    """
    owner = _member("triton.knobs", "runtime") or compiled_kernel_type()
    if not hasattr(owner, "launch_enter_hook"):
        yield
        return

    def hook(metadata: Any) -> None:
        # `metadata.get()` would compute the additions of the kernel's author.
        handle = getattr(metadata, "data", {}).get("function")
        if handle is not None:
            note(handle)

    with patch.object(owner, "launch_enter_hook", hook):
        yield


def compiled_kernel_type() -> Any:
    """Take `triton.compiler.compiler.CompiledKernel`; else None: the code of kernels is not known."""
    return _member("triton.compiler.compiler", "CompiledKernel")


class CompiledKernel(NamedTuple):
    """A kernel that Triton has compiled or loaded; None and empty for what its version does not tell."""

    function: object
    """The driver's handle, also that of its launches."""
    shared_memory_bytes: int | None
    registers: int | None
    ptx: str
    cubin: bytes


def compiled_kernels() -> dict[str, list[CompiledKernel]]:
    """Find Triton's kernels of this process by name: each configuration and type makes a variant."""
    found: dict[str, list[CompiledKernel]] = {}
    kind = compiled_kernel_type()
    # Triton's place for them differs by version; Inductor keeps its own.
    for thing in gc.get_referrers(kind) if kind is not None else ():
        metadata: Any = getattr(thing, "metadata", None) if type(thing) is kind else None
        if hasattr(metadata, "name"):
            asm = getattr(thing, "asm", {})
            kernel = CompiledKernel(
                getattr(thing, "function", None),
                getattr(metadata, "shared", None),
                getattr(thing, "n_regs", None),
                asm.get("ptx", ""),
                asm.get("cubin", b""),
            )
            found.setdefault(metadata.name, []).append(kernel)
    return found


@contextmanager
def triton_compilations_noted(note: Callable[[float, int, int], object]) -> Iterator[None]:
    """Set `triton.knobs.compilation.listener`; else, as before Triton 3.4, its compilations are not noted.

    Args:
        note: Gets the seconds of a kernel, and 1 and 0 if it was compiled, 0 and 1 if it was on disk.
    """
    knobs = _member("triton.knobs", "compilation")
    if not hasattr(knobs, "listener"):
        yield
        return
    before = knobs.listener

    def listener(**facts: Any) -> None:
        with suppress(Exception):  # the call goes on without what another version of Triton tells
            is_cached = bool(facts["cache_hit"])
            note(facts["times"].total / 1e6, int(not is_cached), int(is_cached))
        if before is not None:
            before(**facts)

    with patch.object(knobs, "listener", listener):
        yield


@contextmanager
def choices_noted(note: Callable[[str, str], object]) -> Iterator[None]:
    """Watch `run` of the autotuners of Triton and of Inductor in the block; else choices are not recorded.

    Args:
        note: Gets the name of a kernel and its configuration.
    """

    def triton(tuner: Any) -> None:
        if (chosen := getattr(tuner, "best_config", None)) is not None:
            note(_kernel_of(tuner), _text_of(chosen))

    def inductor(tuner: Any) -> None:
        meta = getattr(tuner, "inductor_meta", {})
        # A template's own arguments are constants of its code.
        own = [f"{name}: {value}" for name, value in meta.get("config_args", {}).items()]
        for launcher in getattr(tuner, "launchers", ()):
            note(meta.get("kernel_name", "kernel"), ", ".join([*own, _text_of(launcher.config)]))

    with (
        _runs_watched(_tuner_of_triton(), triton),
        _runs_watched(_member("torch._inductor.runtime.triton_heuristics", "CachingAutotuner"), inductor),
    ):
        yield


@contextmanager
def choices_pinned(wanted: Mapping[str, str]) -> Iterator[None]:
    """Leave Triton's `Autotuner` in the block one of its `configs`; else it chooses.

    Args:
        wanted: The configuration of each kernel, by its name.
    """
    before: dict[Any, Any] = {}
    tuner = _tuner_of_triton()
    run = getattr(tuner, "run", None)
    if run is None:
        yield
        return

    def pinned_run(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self not in before:
            before[self] = getattr(self, "configs", [])
            if found := [one for one in before[self] if _text_of(one) == wanted.get(_kernel_of(self))]:
                self.configs = found
        return run(self, *args, **kwargs)

    try:
        with patch.object(tuner, "run", pinned_run):
            yield
    finally:
        for one, configs in before.items():
            one.configs = configs


@contextmanager
def _runs_watched(tuner: Any, chosen: Callable[[Any], object]) -> Iterator[None]:
    run = getattr(tuner, "run", None)
    if run is None:
        yield
        return

    def watched_run(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = run(self, *args, **kwargs)
        # Inductor times candidates by the same method.
        if not kwargs.get("benchmark_run"):
            with suppress(Exception):  # as above
                chosen(self)
        return result

    with patch.object(tuner, "run", watched_run):
        yield


def _tuner_of_triton() -> Any:
    return _member("triton.runtime.autotuner", "Autotuner")


def _text_of(config: object) -> str:
    """Return `BLOCK: 64, num_warps: 4`; a newer Triton has more parts that are not set."""
    return ", ".join(part for part in str(config).split(", ") if not part.endswith(": None"))


def _kernel_of(tuner: Any) -> str:
    function = getattr(tuner, "base_fn", None) or getattr(tuner, "fn", None)
    return getattr(function, "__name__", "kernel")


def _member(module: str, name: str) -> Any:
    """Return a member of a module that was imported; None without it."""
    return getattr(sys.modules.get(module), name, None)


def forget_compiled_code() -> None:
    """Call `torch._dynamo.reset` if that is imported, or else `torch.compiler.reset`, which would import it.

    torch.compile then begins again: it makes a second shape of a function dynamic. Its files on disk stay;
    the ptxas that it has set goes.
    """
    if "torch._dynamo" in sys.modules:
        (_member("torch._dynamo", "reset") or _member("torch.compiler", "reset"))()
        take_back_ptxas()


def leave_compile_workers() -> None:
    """Let the pools in `torch._inductor.async_compile._pool_set` end after this process; else it waits.

    A pool that has just begun imports torch first, and execnet interrupts a process that needs 5 s to end.
    """
    for pool in _member("torch._inductor.async_compile", "_pool_set") or ():
        pool.running = False


def proton_profiles() -> bool:
    """Ask `triton.profiler.flags` if a session of proton was started, and not all are finalised.

    Without the name it counts as any other client of CUPTI.
    """
    return bool(getattr(_member("triton.profiler.flags", "flags"), "profiling_on", False))


def hash_own_files() -> None:
    """Call the functions of `HASHES` that are imported; else each first compilation does that."""
    for owner, name in HASHES:
        with suppress(Exception):
            getattr(sys.modules[owner], name)()


def ready_compilers() -> None:
    """Prepare the first launch of a Triton kernel, if Triton was imported: else each process does so."""
    if "triton" in sys.modules:
        with suppress(Exception):
            importlib.import_module(FIRST_LAUNCH)
    hash_own_files()


def take_back_ptxas() -> None:
    """Take back the ptxas that torch.compile sets for the rest of the process, which is of another version.

    Else a test would have other code after a test with torch.compile than alone. Triton keeps ptxas, its
    version and what follows from it, such as the key of its cache: the caches of
    `triton.backends.nvidia.compiler` are cleared. torch.compile sets it again when it compiles.
    """
    torch = getattr(sys.modules.get("torch"), "__file__", None)
    if torch is None or not Path(os.environ.get("TRITON_PTXAS_PATH", "")).is_relative_to(Path(torch).parent):
        return
    del os.environ["TRITON_PTXAS_PATH"]
    with suppress(ImportError):
        from triton.backends.nvidia import compiler

        for one in vars(compiler).values():
            getattr(one, "cache_clear", lambda: None)()


@contextmanager
def replaced_driver(driver: object) -> Iterator[None]:
    """Let Triton ask another driver: `triton.runtime.driver.driver`, whose variables are put back afterwards.

    To read the active driver would look for a GPU, and raise without one. Without the name there are no
    static checks of Triton kernels: ImportError.
    """
    from triton.runtime.driver import driver as present

    before = dict(vars(present))
    present.set_active(driver)
    try:
        yield
    finally:
        vars(present).clear()
        vars(present).update(before)


_OF_CUPY = ("_compile_using_nvrtc_no_warning", "compile_using_nvrtc")
"""From CuPy 14 on, and before; CuPy calls it only for code that it does not find on disk."""
_FUNCTIONS = {"cupy.cuda.compiler": _OF_CUPY, "torch.cuda._utils": ("_nvrtc_compile",)}


@contextmanager
def nvrtc_compilations_noted(note: Callable[[float, int, int], object]) -> Iterator[None]:
    """Watch the functions of CuPy and torch that call NVRTC; else their compilations are not noted.

    Args:
        note: Gets the seconds of a compilation, 1 and 0.
    """

    def timed(compiles: Callable[..., Any]) -> Callable[..., Any]:
        def compile_source(*args: Any, **kwargs: Any) -> Any:
            begin = time.perf_counter()
            result = compiles(*args, **kwargs)
            note(time.perf_counter() - begin, 1, 0)
            return result

        return compile_source

    with ExitStack() as stack:
        for module, names in _FUNCTIONS.items():
            for name in [one for one in names if _member(module, one)][:1]:
                stack.enter_context(patch.object(sys.modules[module], name, timed(_member(module, name))))
        yield
