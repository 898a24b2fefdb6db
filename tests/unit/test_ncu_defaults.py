"""Files without a launch, and launches without values, of ncu."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_gpuperf.measure.ncu.other_files import errors_in, not_from_ncu
from pytest_gpuperf.measure.ncu.printed import Launch
from pytest_gpuperf.measure.ncu.raw_kernel import RawKernel


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("a.bin", b"a\x00b", "a.bin is a binary file, and not a report"),
        ("a.txt", b"a" * 4096 + b"\x00", "a.txt has no header of ncu CSV"),
        ("a.txt", b" \n", "a.txt is empty"),
        ("a.nsys-rep", b"", "a.nsys-rep is a report of Nsight Systems"),
        ("a.zip", b"PK\x03\x04", "a.zip is an archive"),
        ("a.ncu-rep.gz", b"a", "a.ncu-rep.gz is not an ncu report, or a damaged one"),
        ("a.txt", b"==PROF== Report: /x/b.ncu-rep\n", "ncu wrote them to b.ncu-rep"),
        ("a.txt", b"==ERROR== it broke\n==ERROR== again\n", "a.txt has no launch: ncu says: it broke;"),
        (
            "a.txt",
            b'==PROF== Profiling "k" - 0: 0%\n==PROF== Disconnected\n',
            "a.txt is text that ncu printed",
        ),
        ("a.txt", b"==PROF== Disconnected\n", "ncu profiled no kernel"),
    ],
)
def test_file_without_a_launch_is_named(name: str, data: bytes, said: str) -> None:
    assert said in str(not_from_ncu(Path(name), data, data.decode()))


def test_each_error_of_ncu_is_listed_once() -> None:
    assert errors_in("==ERROR== a\n==ERROR== b\n> ==ERROR== a\n") == ["a", "b"]


def test_launch_without_values_has_zeros() -> None:
    kernel, launch = RawKernel(name="k", demangled="k"), Launch("k")
    assert (kernel.grid, kernel.block, kernel.not_finite) == ((0, 0, 0), (0, 0, 0), 0)
    kernel = RawKernel("k")
    assert (kernel.values_in_file, kernel.device) == (0, None)
    assert (launch.grid, launch.block) == ((0, 0, 0), (0, 0, 0))
