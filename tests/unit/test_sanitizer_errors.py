"""Messages about the sanitizer errors of a test."""

from __future__ import annotations

from inline_snapshot import snapshot
from msgspec.structs import replace

from pytest_gpuperf.records import SanitizerHit, SanitizerResult
from pytest_gpuperf.records.sanitizer_error_texts import errors_of

HIT = SanitizerHit(
    kind="Invalid __global__ write of size 4 bytes",
    kernel="scale_kernel",
    places=("k.py:12",),
    block=(3, 0, 0),
    threads=((96, 0, 0),),
    address="0x7f8c2a000190",
    detail="is out of bounds and is 1 bytes after the nearest allocation at 0x7f8c2a000000 of size 400 bytes",
    label="main",
)
RACE = SanitizerHit(
    kind="Potential WAW hazard in __shared__ memory",
    kernel="sum",
    places=("sum.cu:44", "sum.cu:44"),
    block=(0, 0, 0),
    threads=((0, 0, 0), (32, 0, 0)),
    address="0x0",
    detail="Current Value : 0, Incoming Value : 32",
    label="main",
    count=508,
)


def test_messages_name_place_thread_address_call_and_count() -> None:
    hits = (
        HIT,
        RACE,
        replace(HIT, detail="", label="backward"),
        replace(HIT, label=""),
        SanitizerHit(kind="Internal Sanitizer Error", label="main"),
    )
    result = SanitizerResult(tool="memcheck", hits=hits, count=2000, cut=True)
    assert "\n".join(errors_of(result)) == snapshot("""\
memcheck: Invalid __global__ write of size 4 bytes in scale_kernel (k.py:12) by thread (96,0,0) in block (3,0,0)
address 0x7f8c2a000190 is out of bounds and is 1 bytes after the nearest allocation at 0x7f8c2a000000 of size 400 bytes
memcheck: Potential WAW hazard in __shared__ memory in sum (sum.cu:44) by threads (0,0,0) and (32,0,0) in block (0,0,0)
address 0x0, Current Value : 0, Incoming Value : 32
508 of this kind at this place
memcheck: Invalid __global__ write of size 4 bytes in scale_kernel (k.py:12) by thread (96,0,0) in block (3,0,0)
address 0x7f8c2a000190
launched by the call labelled 'backward'
memcheck: Invalid __global__ write of size 4 bytes in scale_kernel (k.py:12) by thread (96,0,0) in block (3,0,0)
address 0x7f8c2a000190 is out of bounds and is 1 bytes after the nearest allocation at 0x7f8c2a000000 of size 400 bytes
launched by the test itself, outside of gpuperf's calls
memcheck: Internal Sanitizer Error
memcheck: 1,488 more errors of other kinds or places
memcheck: the test was ended after 2,000 errors; there are more\
""")  # noqa: E501
