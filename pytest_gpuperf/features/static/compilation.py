"""Entry point of `gpuperf.static`: compile a Triton kernel or CUDA source for each architecture."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_gpuperf.errors import GpuperfError, show_repr

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_gpuperf.records import StaticKernel


def compile_static(
    kernel: Any,
    archs: Sequence[str],
    *,
    signature: Mapping[str, str] | None,
    args: Sequence[Any] | Mapping[str, Any] | None,
    constexprs: Mapping[str, Any] | None,
    options: Mapping[str, Any],
) -> dict[str, StaticKernel]:
    """Compile a kernel.

    Args:
        kernel: A Triton kernel, or CUDA source as a text or a path.
        archs: Architectures such as `sm_90`.
        signature: Signature of a Triton kernel for `compile_triton`, like `args` and `constexprs`.
        args: Arguments in place of the signature.
        constexprs: Values by name.
        options: Other arguments of `compile_triton` or `compile_cuda`.

    Raises:
        NoCompilerError: No compiler was found.
        GpuperfError: The kernel does not compile, or cannot be launched on one of the architectures.
    """
    if isinstance(archs, str) or not archs:
        raise GpuperfError(f"archs={show_repr(archs)}", expected="a tuple such as ('sm_90', 'sm_120')")
    if not isinstance(kernel, (str, Path)):
        from pytest_gpuperf.features.static.triton_compilation import compile_triton

        return compile_triton(
            kernel,
            archs,
            signature=signature,
            args=args,
            constexprs=constexprs or {},
            options=options,
        )
    from pytest_gpuperf.features.static.cuda_compilation import compile_cuda

    known = [name for name in inspect.signature(compile_cuda).parameters if name != "source"]
    of_triton = {"signature": signature, "args": args, "constexprs": constexprs}
    unknown = [name for name, value in of_triton.items() if value is not None]
    unknown += [name for name in options if name not in known]
    if unknown:
        raise GpuperfError(
            f"{unknown[0]}= for CUDA source", expected=f"keyword arguments out of {', '.join(known)}"
        )
    _check_options(options)
    return compile_cuda(kernel, archs, **options)


def _check_options(options: Mapping[str, Any]) -> None:
    """Check the options of CUDA source."""
    entry, flags = options.get("entry", ""), options.get("flags", ())
    if not isinstance(entry, str):
        raise GpuperfError(f"entry={show_repr(entry)}", expected="a regex, found in the name of the kernel")
    for name in ("block_size", "shared_memory"):
        value = options.get(name, 0)
        if type(value) is not int or not 0 <= value < 2**31:
            raise GpuperfError(f"{name}={show_repr(value)}", expected="a whole number, at least 0")
    many = flags if isinstance(flags, (list, tuple)) else (None,)
    if not all(isinstance(flag, str) and flag.isprintable() for flag in many):
        raise GpuperfError(f"flags={show_repr(flags)}", expected="a list of the compiler's options: ['-O3']")
