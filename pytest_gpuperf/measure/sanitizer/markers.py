"""Marks in compute-sanitizer's log: what the tool reports between two of them belongs to one test.

The tool does not say for which test it reports, and its log is written by another process, some time after
the error: neither the clock nor the length of the log tells tests apart. What keeps its order is the stream
of reports. So a small kernel is launched before and after each call, with an error on purpose, of the tool's
own kind, and a number in its name, and each report belongs to the last mark before it. Where no mark comes at
all, the tool does not see the process, which else looks the same as a process without errors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_PREFIX = "gpuperf_marker_"

# PTX of these versions is compiled by every driver that the tool supports.
_MODULE = """
.version 6.4
.target sm_70
.address_size 64
.visible .entry {name}(.param .u64 unwritten)
{{
    .reg .pred %p;
    .reg .b64 %address;
    .reg .u32 %thread, %lane;
    .reg .u16 %value;
    .shared .u8 shared;
    mov.u32 %thread, %tid.x;
{body}
}}
"""

BODIES: Mapping[str, str] = {
    # Into the page of the null pointer.
    "memcheck": """
    setp.ne.u32 %p, %thread, 0;
    @%p ret;
    mov.u64 %address, 16;
    st.volatile.global.u8 [%address], 0;
    ret;""",
    "initcheck": """
    setp.ne.u32 %p, %thread, 0;
    @%p ret;
    ld.param.u64 %address, [unwritten];
    ld.volatile.global.u8 %value, [%address];
    ret;""",
    # The first lanes of both warps write a byte, and not the same value.
    "racecheck": """
    and.b32 %lane, %thread, 31;
    setp.ne.u32 %p, %lane, 0;
    @%p ret;
    st.volatile.shared.u8 [shared], %thread;
    ret;""",
    # One thread at a barrier that all have to reach.
    "synccheck": """
    setp.ne.u32 %p, %thread, 1;
    @%p bra past;
    bar.sync 0;
past:
    st.volatile.shared.u8 [shared], 0;
    ret;""",
}


def marker_name(number: int) -> str:
    """The name of a marker's kernel."""
    return f"{_PREFIX}{number}"


def is_marker(kernel: str) -> bool:
    """Whether a kernel is one."""
    return kernel.startswith(_PREFIX)


def marker_ptx(tool: str, name: str) -> str:
    """A marker that makes an error of the tool's own kind, as PTX.

    It takes the address of memory that nobody has written, and a block of two warps.
    """
    return _MODULE.format(name=name, body=BODIES[tool].strip("\n"))
