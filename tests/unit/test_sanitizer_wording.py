"""Messages about the sanitizer errors of a test."""

from __future__ import annotations

from msgspec.structs import replace

from pytest_gpuperf.measure.sanitizer.wording import errors_of
from pytest_gpuperf.records import SanitizerHit, SanitizerResult

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


def texts(*hits: SanitizerHit, count: int = 0, cut: bool = False, tool: str = "memcheck") -> list[str]:
    total = count or sum(hit.count for hit in hits)
    return errors_of(SanitizerResult(tool=tool, hits=hits, count=total, cut=cut))


def test_an_access_names_kernel_place_thread_and_address() -> None:
    assert texts(HIT) == [
        "memcheck: Invalid __global__ write of size 4 bytes in scale_kernel (k.py:12) by thread (96,0,0) in "
        "block (3,0,0)\n"
        "address 0x7f8c2a000190 is out of bounds and is 1 bytes after the nearest allocation at "
        "0x7f8c2a000000 of size 400 bytes"
    ]


def test_a_race_names_both_threads_and_its_count() -> None:
    assert texts(RACE, tool="racecheck") == [
        "racecheck: Potential WAW hazard in __shared__ memory in sum (sum.cu:44) by threads (0,0,0) and "
        "(32,0,0) in block (0,0,0)\n"
        "address 0x0, Current Value : 0, Incoming Value : 32\n"
        "508 of this kind at this place"
    ]


def test_call_label_is_named_unless_main() -> None:
    assert texts(replace(HIT, label="backward"))[0].endswith("\nlaunched by the call labelled 'backward'")
    assert texts(replace(HIT, label=""))[0].endswith(
        "\nlaunched by the test itself, outside of gpuperf's calls"
    )


def test_error_with_only_an_address_reads_well() -> None:
    assert texts(replace(HIT, detail=""))[0].endswith("\naddress 0x7f8c2a000190")
    assert texts(SanitizerHit(kind="Internal Sanitizer Error", label="main")) == [
        "memcheck: Internal Sanitizer Error"
    ]


def test_hidden_errors_are_counted() -> None:
    assert texts(HIT, count=1001, cut=True)[1:] == [
        "memcheck: 1,000 more errors of other kinds or places",
        "memcheck: the test was ended after 1,001 errors; there are more",
    ]


def test_unchecked_test_names_the_reason() -> None:
    result = SanitizerResult(tool="memcheck", unchecked="its call ended with ValueError: x")
    assert errors_of(result) == ["memcheck did not check this test: its call ended with ValueError: x"]


def test_test_without_errors_has_no_message() -> None:
    assert texts() == []
