"""The CUDA driver: its functions and numbers, and kernels of our own in PTX.

The driver compiles these in milliseconds, without Triton, with any torch. The numbers have their names in
`cuda.h`, with which a test compares them.
"""

from __future__ import annotations

import ctypes
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from pytest_gpuperf.errors import GpuperfError

if TYPE_CHECKING:
    from collections.abc import Mapping

CUDA_ERROR_STUB_LIBRARY = 34
CUDA_ERROR_NO_DEVICE = 100
CU_LIMIT_PERSISTING_L2_CACHE_SIZE = 6
CU_STREAM_ATTRIBUTE_ACCESS_POLICY_WINDOW = 1

CU_GRAPH_NODE_TYPE_KERNEL = 0
CU_GRAPH_NODE_TYPE_MEMCPY = 1
CU_GRAPH_NODE_TYPE_MEMSET = 2
CU_GRAPH_NODE_TYPE_GRAPH = 4
CU_GRAPH_NODE_TYPE_CONDITIONAL = 13
SPIN, STAMP, EMPTY, HOLD = "gpuperf_spin_kernel", "gpuperf_stamp", "gpuperf_empty", "gpuperf_hold"
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


class DriverError(GpuperfError):
    """The driver is missing, or refuses."""


@cache
def library() -> ctypes.CDLL:
    """Load the driver.

    Raises:
        DriverError: It cannot be loaded.
    """
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise DriverError(f"the CUDA driver cannot be loaded: {error}") from None


def call(function: str, *arguments: object) -> None:
    """Call a function of the driver.

    Raises:
        DriverError: The driver is missing, lacks the function, or refuses.
    """
    try:
        result = getattr(library(), function)(*arguments)
    except AttributeError:
        raise DriverError(f"the CUDA driver has no {function}") from None
    if result:
        raise DriverError(f"the CUDA driver's {function} failed with error {result}")


class Kernel(NamedTuple):
    """A kernel in torch's CUDA context. It is never unloaded."""

    handle: ctypes.c_void_p

    def launch(self, blocks: int, threads: int, argument: int, stream: int = 0) -> None:
        """Launch it.

        Args:
            blocks: Blocks of the grid.
            threads: Threads of a block.
            argument: Its only parameter, a `.u64`.
            stream: Handle of a stream; 0 is the default one.

        Raises:
            DriverError: The driver refuses.
        """
        value = ctypes.c_uint64(argument)
        arguments = (ctypes.c_void_p * 1)(ctypes.addressof(value))
        grid_block_and_shared = map(ctypes.c_uint, (blocks, 1, 1, threads, 1, 1, 0))
        call("cuLaunchKernel", self.handle, *grid_block_and_shared, ctypes.c_void_p(stream), arguments, None)


def load(ptx: str, name: str) -> Kernel:
    """Compile a kernel in the current context.

    Raises:
        DriverError: The driver refuses.
    """
    module, kernel = ctypes.c_void_p(), ctypes.c_void_p()
    try:
        call("cuModuleLoadData", ctypes.byref(module), ptx.encode())
    except DriverError as error:
        raise DriverError(error.found, expected="a GPU of compute capability 7.0 or later") from None
    call("cuModuleGetFunction", ctypes.byref(kernel), module, name.encode())
    return Kernel(kernel)


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
    # Its import takes seconds, which processes that only ask the driver spare.
    import torch

    kernel(name, torch.cuda.current_device()).launch(blocks, 1, argument, stream)


@cache
def kernel(name: str, _device: int) -> Kernel:
    """Return a kernel of the current device, whose number is given; see `launch`."""
    return load(PTX[name], name)
