"""Use of tensor cores by Triton kernels, read from the code that this process has compiled."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from pytest_gpuperf.compat.compiler_names import compiled_kernels
from pytest_gpuperf.registry import registry

if TYPE_CHECKING:
    from pytest_gpuperf.compat.compiler_names import CompiledKernel
    from pytest_gpuperf.features.trace.chrome_traces import TraceActivity


class TritonCode:
    """Answers for the kernels of one trace."""

    def __call__(self, kernel: TraceActivity) -> bool | None:
        """Return True if a kernel's code multiplies on tensor cores; None if Triton did not compile it."""
        found = self._by_name.get(kernel.name, [])
        # Each configuration and each type of the arguments makes a variant of one name.
        alike = [one for one in found if one.shared_memory_bytes == kernel.args.shared_memory_bytes] or found
        answers = {_multiplies(one) for one in alike}
        return answers.pop() if len(answers) == 1 else None

    @cached_property
    def _by_name(self) -> dict[str, list[CompiledKernel]]:
        return compiled_kernels()


def _multiplies(compiled: CompiledKernel) -> bool | None:
    if not compiled.ptx or "static" not in registry().features:
        return None
    from pytest_gpuperf.features.static.ptx_reader import read_ptx

    return any(kernel.tensor_instructions for kernel in read_ptx(compiled.ptx))
