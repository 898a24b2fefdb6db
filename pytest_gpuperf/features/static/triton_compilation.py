"""Compile a Triton kernel for any architecture without a GPU, like a launch on it would."""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock
from typing import TYPE_CHECKING, Any

from pytest_gpuperf.compat.compiler_names import hash_own_files, replaced_driver, take_back_ptxas
from pytest_gpuperf.errors import GpuperfError, NoCompilerError
from pytest_gpuperf.features.static.kernel_record import (
    Compiled,
    compute_capability,
    shortened,
    static_kernel,
)
from pytest_gpuperf.features.static.ptx_reader import isa_version, read_ptx
from pytest_gpuperf.features.static.resources import read_cubin
from pytest_gpuperf.measure.device.occupancy import WARP_THREADS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_gpuperf.records import StaticKernel

_FIRST_FOR_BLACKWELL = (3, 3)
"""Older versions do not raise for Blackwell: they abort the process."""
TRIES = 5
"""Times that a source is parsed if a fault of Python ends the first ones."""
_SCALARS: Mapping[str, tuple[Any, Any]] = {
    # A value of the type that is neither 1 nor a multiple of 16, and one that is a multiple.
    "i32": (17, 16),
    "i64": (2**31 + 1, 2**31),
    "u64": (2**63 + 1, 2**63),
    "fp32": (0.5, 0.5),
    "i1": (True, True),
    "u1": (True, True),
}


def compile_triton(
    kernel: Any,
    archs: Sequence[str],
    *,
    signature: Mapping[str, str] | None,
    args: Sequence[Any] | Mapping[str, Any] | None,
    constexprs: Mapping[str, Any],
    options: Mapping[str, Any],
) -> dict[str, StaticKernel]:
    """Compile a kernel for several architectures at once; Triton's cache keeps the results.

    Args:
        kernel: A function with `triton.jit`; autotuning and heuristics around it are left out.
        archs: Architectures such as `sm_90`.
        signature: Types by argument name, or None if `args` are given.
        args: Tensors and numbers of a launch, by name or by position among the arguments without constexpr.
        constexprs: Values by name.
        options: `num_warps` and other options of a launch.

    Raises:
        GpuperfError: Triton is missing, an argument is missing or unexpected, or the kernel does not compile.
    """
    function = _jit_function(kernel)
    values = arguments(function, signature, args, constexprs)
    import triton

    # Triton that can compile in the background can compile in threads, most of the time without the GIL.
    workers = len(archs) if hasattr(triton, "AsyncCompileMode") else 1
    # Else each thread of a first compilation does so, 0.5 s.
    hash_own_files()
    take_back_ptxas()
    with elsewhere(), ThreadPoolExecutor(workers) as pool:
        made = pool.map(lambda arch: _compile(function, arch, values, options), archs)
        return dict(zip(archs, made, strict=True))


def _jit_function(kernel: Any) -> Any:
    try:
        from triton import JITFunction
    except ModuleNotFoundError:
        raise NoCompilerError("triton is not installed", next_step="pip install triton") from None
    function = kernel
    while not isinstance(function, JITFunction):
        inner = getattr(function, "fn", None)
        if inner is None or inspect.isfunction(inner):
            interpreted = os.environ.get("TRITON_INTERPRET") == "1"
            raise GpuperfError(
                f"the kernel is a {type(kernel).__name__}",
                expected="a function with @triton.jit, or CUDA source as a text or a path",
                next_step="unset TRITON_INTERPRET: interpreted kernels are not compiled"
                if interpreted
                else "",
            )
        function = inner
    return function


def arguments(
    function: Any,
    signature: Mapping[str, str] | None,
    args: Sequence[Any] | Mapping[str, Any] | None,
    constexprs: Mapping[str, Any],
) -> dict[str, Any]:
    """Return all arguments of a launch by name."""
    name = function.__name__
    params = {param.name: param for param in function.params}
    if (signature is None) is (args is None):
        raise GpuperfError(
            f"{name} has {'no arguments' if args is None else 'both signature= and args='}",
            expected="signature={'x_ptr': '*fp32', 'n': 'i32'}, or args=(x, n) with (meta) tensors",
        )
    given: dict[str, Any]
    if signature is not None:
        given = {
            key: _stand_in(key, kind, params.get(key))
            for key, kind in signature.items()
            if kind != "constexpr"  # Triton's own signatures contain it
        }
    elif isinstance(args, Mapping):
        given = dict(args)
    else:
        wanted = [key for key, param in params.items() if not param.is_constexpr and key not in constexprs]
        if len(args or ()) > len(wanted):
            raise GpuperfError(
                f"{len(args or ())} arguments for {name}", expected=f"{len(wanted)}: {', '.join(wanted)}"
            )
        given = dict(zip(wanted, args or (), strict=False))
    given.update(constexprs)
    unknown = [key for key in given if key not in params]
    missing = [key for key, param in params.items() if key not in given and not param.has_default]
    if unknown or missing:
        found = f"no argument {unknown[0]!r}" if unknown else f"no value for {', '.join(missing)}"
        raise GpuperfError(
            f"{name} has {found}",
            expected=f"values for {', '.join(params)}",
            next_step="constexprs={…} takes the values that autotuning and heuristics would choose"
            * bool(missing),
        )
    return given


class _Pointer:
    """Stand-in for a tensor with all that Triton asks for."""

    def __init__(self, dtype: str, address: int) -> None:
        self.dtype = dtype
        self._address = address

    def data_ptr(self) -> int:
        return self._address


def _stand_in(name: str, kind: str, param: Any) -> Any:
    """Return a value of this type for a launch; `:16` makes it a multiple of 16, `:1` makes it 1."""
    base, _, hint = kind.replace(" ", "").partition(":")
    if hint in ("", "1", "16"):
        if base.startswith("*") and hint != "1":
            return _Pointer(base[1:], 16 if hint else 1)
        if base.startswith(("i", "u")) and hint == "1":
            return 1
        # The annotation of an argument is its type, regardless of the value.
        if base == getattr(param, "annotation_type", ""):
            return 16 if hint else 17
        if base in _SCALARS:
            return _SCALARS[base][hint == "16"]
    raise GpuperfError(
        f"the type of {name} is {kind!r}",
        expected=f"a pointer such as '*fp16', one of {', '.join(_SCALARS)}, or the type that the kernel "
        "annotates; behind it ':16' for a multiple of 16 or ':1' for 1",
    )


_ONE_AT_A_TIME = Lock()
_TARGET: ContextVar[Any] = ContextVar("target")
"""Architecture to compile for; each thread has its own."""


class _Elsewhere:
    """Answers to Triton's questions to the driver before a launch, for an absent GPU."""

    def get_current_target(self) -> Any:
        return _TARGET.get()

    def get_current_device(self) -> str:
        # Triton keeps compiled kernels by device: a name keeps them apart from those of a real device.
        return f"static {_TARGET.get().arch}"

    def get_current_stream(self, _device: object) -> int:
        return 0


def target_of(arch: str) -> Any:
    """Return the architecture as a Triton target."""
    from triton.backends.compiler import GPUTarget

    major, minor = compute_capability(arch)
    return GPUTarget("cuda", 10 * major + minor, WARP_THREADS)


@contextmanager
def elsewhere() -> Iterator[None]:
    """Answer in place of the driver for the target of each thread; one caller at a time."""
    with _ONE_AT_A_TIME, replaced_driver(_Elsewhere()):
        yield


@contextmanager
def pretend(target: Any) -> Iterator[None]:
    """Pretend to this thread that there is a GPU of another architecture; needs `elsewhere` around it."""
    token = _TARGET.set(target)
    try:
        yield
    finally:
        _TARGET.reset(token)


def _warm_up(function: Any, arguments: Mapping[str, Any], tries: int = TRIES) -> Any:
    """Compile for the target of this thread.

    Threads that parse source at the same time can break a counter of CPython 3.11, which then raises
    SystemError ("AST constructor recursion depth mismatch"). The source is right, so parse it again. For a
    function that the kernel calls, Triton raises an error of its own from it.
    """
    try:
        return function.warmup(grid=(1,), **arguments)
    except Exception as error:
        reason: BaseException | None = error
        while reason is not None and not isinstance(reason, SystemError):
            reason = reason.__cause__ or reason.__context__
        if reason is None or tries == 1:
            raise
    return _warm_up(function, arguments, tries - 1)


def _compile(function: Any, arch: str, values: Mapping[str, Any], options: Mapping[str, Any]) -> StaticKernel:
    import triton

    major, _ = compute_capability(arch)
    version = triton.__version__
    if major >= 10 and tuple(map(int, version.split(".")[:2])) < _FIRST_FOR_BLACKWELL:
        raise GpuperfError(
            f"triton {version} cannot compile for {arch}",
            expected="triton 3.3 or newer",
            next_step="upgrade it",
        )
    name = function.__name__
    try:
        with pretend(target_of(arch)):
            compiled = _warm_up(function, {**values, **options})
    except Exception as error:
        reason = shortened(str(error)) or type(error).__name__
        raise GpuperfError(f"{name} does not compile for {arch}: {reason}") from error
    assembly, metadata = compiled.asm, compiled.metadata
    [ptx] = read_ptx(assembly["ptx"])
    return static_kernel(
        Compiled(
            f"triton {version}, PTX {isa_version(assembly['ptx'])}",
            ptx,
            # Triton's shared memory is all dynamic.
            read_cubin(assembly["cubin"], ptx.name),
            assembly["cubin"],
        ),
        arch,
        # Only the code counts the warps that Triton adds for warp specialisation.
        block_size=ptx.threads or WARP_THREADS * metadata.num_warps,
        dynamic_bytes=metadata.shared,
    )
