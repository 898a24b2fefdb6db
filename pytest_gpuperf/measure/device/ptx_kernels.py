"""Kernels of our own in PTX, which the CUDA driver compiles in milliseconds: no Triton, any torch."""

from __future__ import annotations

from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING

import torch

from pytest_gpuperf.measure.device.driver import load

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_gpuperf.measure.device.driver import Kernel

SPIN, STAMP, EMPTY, HOLD = "gpuperf_spin", "gpuperf_stamp", "gpuperf_empty", "gpuperf_hold"
HEADER = """
.version 6.4
.target sm_70
.address_size 64
"""
PTX: Mapping[str, str] = MappingProxyType(
    {
        SPIN: f"""{HEADER}
.visible .entry {SPIN}(.param .u64 cycles)
{{
    .reg .pred %p;
    .reg .b64 %now, %end;
    ld.param.u64 %end, [cycles];
    mov.u64 %now, %clock64;
    add.u64 %end, %end, %now;
again:
    mov.u64 %now, %clock64;
    setp.lt.u64 %p, %now, %end;
    @%p bra again;
    ret;
}}
""",
        STAMP: f"""{HEADER}
.visible .entry {STAMP}(.param .u64 rows)
{{
    .reg .b32 %block, %sm;
    .reg .b64 %row, %offset, %ns, %cycles, %number;
    mov.u64 %ns, %globaltimer;
    mov.u64 %cycles, %clock64;
    mov.u32 %sm, %smid;
    mov.u32 %block, %ctaid.x;
    ld.param.u64 %row, [rows];
    cvta.to.global.u64 %row, %row;
    mul.wide.u32 %offset, %block, 24;
    add.u64 %row, %row, %offset;
    cvt.u64.u32 %number, %sm;
    st.global.u64 [%row], %ns;
    st.global.u64 [%row+8], %cycles;
    st.global.u64 [%row+16], %number;
    ret;
}}
""",
        # The first thread of each block waits for the host; together the blocks take all places for threads.
        HOLD: f"""{HEADER}
.visible .entry {HOLD}(.param .u64 control)
{{
    .reg .pred %p;
    .reg .b32 %thread;
    .reg .b64 %control, %released, %now, %end;
    mov.u32 %thread, %tid.x;
    setp.ne.u32 %p, %thread, 0;
    @%p bra done;
    ld.param.u64 %control, [control];
    ld.volatile.global.u64 %end, [%control + 8];
    mov.u64 %now, %globaltimer;
    add.u64 %end, %end, %now;
again:
    nanosleep.u32 1000;
    ld.volatile.global.u64 %released, [%control];
    setp.ne.u64 %p, %released, 0;
    @%p bra done;
    mov.u64 %now, %globaltimer;
    setp.lt.u64 %p, %now, %end;
    @%p bra again;
done:
    bar.sync 0;
    ret;
}}
""",
        EMPTY: f"""{HEADER}
.visible .entry {EMPTY}(.param .u64 unused)
{{
    ret;
}}
""",
    }
)
"""Each kernel has one parameter. `STAMP` stores nanoseconds, SM cycles and the number of the SM of each block
in a row of three `.u64`."""


def launch(name: str, argument: int, stream: int, blocks: int = 1) -> None:
    """Queue a kernel; compile it first if it is new to the current device.

    Args:
        name: One of `PTX`.
        argument: Cycles to spin, or the address of the rows.
        stream: Handle of a stream of the current device.
        blocks: Blocks of one thread.

    Raises:
        GpuperfError: The driver refuses it.
    """
    kernel(name, torch.cuda.current_device()).launch(blocks, 1, argument, stream)


@cache
def kernel(name: str, _device: int) -> Kernel:
    """Return a kernel of the current device, whose number is given; see `launch`."""
    return load(PTX[name], name)
