"""Kernel that stores the GPU's time. Imports Triton: import this module only when needed."""

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["at"])
def works_with_mark(out, at):  # type: ignore[no-untyped-def]
    """Store `%globaltimer`, in nanoseconds."""
    time_ns = tl.inline_asm_elementwise(
        "mov.u64 $0, %globaltimer;", "=l", [], dtype=tl.int64, is_pure=False, pack=1
    )
    tl.store(out + at, time_ns)
