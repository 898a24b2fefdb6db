"""Logs of compute-sanitizer in the formats of its releases since 2023.3."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpuperf.features.sanitizer.log_reader import read_log
from pytest_gpuperf.records import SanitizerHit

OUT_OF_BOUNDS = """
========= COMPUTE-SANITIZER
========= Invalid __global__ read of size 16 bytes
=========     at matmul_kernel+0xec0 in matmul.py:43
=========     by thread (18,0,0) in block (1,2,3)
=========     Access to 0x74505bcccca0 is out of bounds
=========     and is 161 bytes after the nearest allocation at 0x74505bccc800 of size 1,024 bytes
=========
========= ERROR SUMMARY: 1 error
"""
RACE = """
========= ERROR: Potential WAW hazard detected at __shared__ 0x8c in block (0,0,1) :
=========     Write Thread (35,0,0) at sum(int *, int *)+0x90 in /home/me/sum.cu:44
=========     Write Thread (1,0,0) at sum(int *, int *)+0x120 in /home/me/sum.cu:56
=========     Current Value : 1, Incoming Value : 2
=========
"""


def entries(log: str) -> list[SanitizerHit | str]:
    return list(read_log(log.splitlines()))


def report(log: str) -> SanitizerHit:
    (found,) = entries(log)
    assert isinstance(found, SanitizerHit)
    return found


def test_an_access_out_of_bounds_has_kernel_thread_and_address() -> None:
    assert report(OUT_OF_BOUNDS) == SanitizerHit(
        kind="Invalid __global__ read of size 16 bytes",
        kernel="matmul_kernel",
        places=("matmul.py:43",),
        block=(1, 2, 3),
        threads=((18, 0, 0),),
        address="0x74505bcccca0",
        detail="is out of bounds and is 161 bytes after the nearest allocation at 0x74505bccc800 of size "
        "1,024 bytes",
    )


@pytest.mark.parametrize(
    ("place", "kernel", "shown"),
    [
        ("matmul_kernel+0xec0 in matmul.py:43", "matmul_kernel", "matmul.py:43"),
        ("matmul_kernel+0xec0 in /home/me/matmul.py:43", "matmul_kernel", "matmul.py:43"),
        ("matmul_kernel+0xec0", "matmul_kernel", "+0xec0"),
        ("unaligned_kernel():0x160 in demo.cu:6", "unaligned_kernel", "demo.cu:6"),
        ("void at::f<at::g<(int)4>>(int *)+0x70", "void at::f<at::g<(int)4>>(int *)", "+0x70"),
    ],
)
def test_place_is_read_in_every_release_format(place: str, kernel: str, shown: str) -> None:
    found = report(OUT_OF_BOUNDS.replace("matmul_kernel+0xec0 in matmul.py:43", place))
    assert (found.kernel, found.places) == (kernel, (shown,))


@pytest.mark.parametrize(
    "frame",
    [
        "    Device Frame: out_of_bounds_kernel()+0x30 in demo.cu:44",
        "Device Frame:out_of_bounds_kernel()+0x30 in /home/me/demo.cu:44",
    ],
)
def test_kernel_is_the_outermost_function(frame: str) -> None:
    log = OUT_OF_BOUNDS.replace(
        "1,024 bytes\n", f"1,024 bytes\n=========     Device Frame: f+0x10 in a.cu:1\n=========     {frame}\n"
    )
    found = report(log)
    assert (found.kernel, found.places) == ("out_of_bounds_kernel", ("matmul.py:43",))


def test_a_race_has_both_threads_and_the_offset() -> None:
    assert report(RACE) == SanitizerHit(
        kind="Potential WAW hazard in __shared__ memory",
        kernel="sum(int *, int *)",
        places=("sum.cu:44", "sum.cu:56"),
        block=(0, 0, 1),
        threads=((35, 0, 0), (1, 0, 0)),
        address="0x8c",
        detail="Current Value : 1, Incoming Value : 2",
    )


def test_a_race_within_a_warp_is_called_a_warning() -> None:
    found = report(RACE.replace("ERROR: ", "Warning: (Warp Level Programming) "))
    assert found.kind == "Potential WAW hazard in __shared__ memory (warning)"
    assert found.detail == "Warp Level Programming; Current Value : 1, Incoming Value : 2"


def test_a_barrier_has_its_thread() -> None:
    found = report(
        """
========= Barrier error detected. Missing wait.
=========     at launch_tma_load+0xbb10 in b200_matmul.cu:98
=========     by thread (128,0,0) in block (0,0,0)
=========     Barrier is located at shared address 0x30408
=========         Device Frame: gemm+0x10 in b200_matmul.cu:462
"""
    )
    assert found.kind == "Barrier error detected. Missing wait"
    assert (found.kernel, found.threads, found.address) == ("gemm", ((128, 0, 0),), "0x30408")


@pytest.mark.parametrize(
    "log",
    [
        "========= Host API memory access error at host access to 0x13 of size 25600 bytes\n"
        "=========     Uninitialized access at 0x14 on access by cudaMemcpy source.\n",
        "========= Internal Sanitizer Error: The Sanitizer encountered an error while launching f and didn't "
        "track the launch. Errors might go undetected. (Unable to allocate enough memory)\n",
    ],
)
def test_error_without_a_kernel_counts(log: str) -> None:
    assert report(log).kernel == ""


def test_api_errors_are_not_kernel_errors() -> None:
    log = (
        '========= Program hit cudaErrorMemoryAllocation (error 2) due to "out of memory" on CUDA API call.\n'
    )
    assert entries(log + "=========     Saved host backtrace up to driver entry point at error\n") == []


def test_tool_messages_are_kept_on_one_line() -> None:
    log = """
========= COMPUTE-SANITIZER
hello from the program
========= Error: process didn't terminate successfully
=========     The application may have hit an error
========= Target application returned an error
========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)
"""
    assert entries(log) == [
        "Error: process didn't terminate successfully The application may have hit an error",
        "Target application returned an error",
    ]


@given(st.text(alphabet="= \n()0x9af,:+abyitnWrTehd./<>", max_size=300))
def test_any_text_is_readable_as_log(text: str) -> None:
    entries("\n".join(f"========= {line}" for line in text.split("\n")))
