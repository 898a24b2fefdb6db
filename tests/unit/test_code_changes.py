"""Code and launches of a call compared with those of its baseline."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from pytest_gpuperf.records import LaunchedCode, LaunchedKernel
from pytest_gpuperf.records.kernel_code import compare_code, is_same_code


def kernel(**fields: Any) -> LaunchedKernel:
    return LaunchedKernel(**{"name": "k", "code": "ab", "code_bytes": 1024, **fields})


def code(*kernels: LaunchedKernel, **fields: Any) -> LaunchedCode:
    return LaunchedCode(kernels=kernels or (kernel(),), driver="580.1", **fields)


@pytest.mark.parametrize(
    ("now", "lines"),
    [
        (code(kernel(code="cd", code_bytes=2048)), ("k: other code, instructions 64 -> 128",)),
        (
            code(kernel(code="cd", registers_per_thread=40, shared_memory_bytes=1024, local_bytes=16)),
            (
                "k: other code, shared memory bytes 0 -> 1024, registers per thread 0 -> 40, "
                "local bytes 0 -> 16",
            ),
        ),
        (code(kernel(block=(64, 2, 1), code_bytes=0)), ("k: block 0 x 0 x 0 -> 64 x 2 x 1",)),
        (code(kernel(), kernel(name="n")), ("n is a new kernel",)),
        (code(kernel(name="n")), ("n is a new kernel", "k is no longer launched")),
        (replace(code(), driver="590"), ("driver 580.1 -> 590",)),
        (code(*(kernel(name=f"n{at}") for at in range(10))), 9),
    ],
)
def test_differences_are_named(now: LaunchedCode, lines: tuple[str, ...] | int) -> None:
    found = compare_code(now, code())
    assert not is_same_code(now, code())
    assert (len(found) if isinstance(lines, int) else found) == lines


def test_order_of_launches_makes_no_difference() -> None:
    pair = kernel(), kernel(name="n")
    assert is_same_code(code(*pair), code(*reversed(pair)))


def test_unknown_code_is_neither_the_same_nor_different() -> None:
    for one, other in ((None, code()), (code(), None), (code(kernel(code="")), code())):
        assert (compare_code(one, other), is_same_code(one, other)) == ((), False)
