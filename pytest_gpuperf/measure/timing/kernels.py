"""Kernels of `stamp` and `launch_gap`. Imports Triton: import this module only when needed."""

import triton
import triton.language as tl


@triton.jit
def gpuperf_stamp(out):  # type: ignore[no-untyped-def]
    """Store nanoseconds, SM cycles and the SM's number of each program."""
    program = tl.program_id(0)
    time_ns = tl.inline_asm_elementwise(
        "mov.u64 $0, %globaltimer;", "=l", [], dtype=tl.int64, is_pure=False, pack=1
    )
    cycles = tl.inline_asm_elementwise(
        "mov.u64 $0, %clock64;", "=l", [], dtype=tl.int64, is_pure=False, pack=1
    )
    sm = tl.inline_asm_elementwise("mov.u32 $0, %smid;", "=r", [], dtype=tl.int32, is_pure=False, pack=1)
    tl.store(out + program * 3, time_ns)
    tl.store(out + program * 3 + 1, cycles)
    tl.store(out + program * 3 + 2, sm.to(tl.int64))


@triton.jit
def gpuperf_empty():  # type: ignore[no-untyped-def]
    """Do nothing."""
