"""Marks in compute-sanitizer's log: all reports between two marks belong to one test.

The tool does not name the test of a report, and another process writes its log some time after the error, so
neither the clock nor the length of the log separates tests. Only the order of reports is reliable. So a small
kernel is launched before and after each call. It contains a deliberate error of the tool's own kind and a
number in its name. Each report belongs to the last mark before it. If no mark arrives, the tool does not see
the process, which otherwise looks the same as a process without errors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_PREFIX = "gpuperf_marker_"

# Every driver that the tool supports compiles PTX of these versions.
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
    ret;
}}
"""

BODIES: Mapping[str, str] = {
    # Writes into the page of the null pointer.
    "memcheck": """
    setp.ne.u32 %p, %thread, 0;
    @%p ret;
    mov.u64 %address, 16;
    st.volatile.global.u8 [%address], 0;""",
    "initcheck": """
    setp.ne.u32 %p, %thread, 0;
    @%p ret;
    ld.param.u64 %address, [unwritten];
    ld.volatile.global.u8 %value, [%address];""",
    # The first lanes of both warps write different values to one byte.
    "racecheck": """
    and.b32 %lane, %thread, 31;
    setp.ne.u32 %p, %lane, 0;
    @%p ret;
    st.volatile.shared.u8 [shared], %thread;""",
    # One thread waits at a barrier that all threads have to reach.
    "synccheck": """
    setp.ne.u32 %p, %thread, 1;
    @%p bra past;
    bar.sync 0;
past:
    st.volatile.shared.u8 [shared], 0;""",
}


def marker_name(number: int) -> str:
    """Return the name of a marker's kernel."""
    return f"{_PREFIX}{number}"


def is_marker(kernel: str) -> bool:
    """Return True if the kernel is a marker."""
    return kernel.startswith(_PREFIX)


def marker_ptx(tool: str, name: str) -> str:
    """Return the PTX of a marker that makes an error of the tool's own kind.

    Its parameter is the address of unwritten memory; its block has two warps.
    """
    return _MODULE.format(name=name, body=BODIES[tool].strip("\n"))
