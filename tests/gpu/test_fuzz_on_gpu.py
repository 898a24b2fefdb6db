"""Red zones on a real GPU: planted bugs are found, and memory is shared as before."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from pytest_gpuperf.measure.correctness import check

if torch.cuda.is_available():
    from benchmarks.planted_bugs import PLANTED, one_past_the_end

BUGS = {bug.fn.__name__: bug for bug in PLANTED} if torch.cuda.is_available() else {}
HIDDEN = {
    "past_the_block": (2048,),
    "one_past_the_end": (2048,),
    "into_the_argument": (2048,),
    "tail_columns": (3, 256),
    "past_the_row": (3, 128),
    "unmasked_read": (3, 256),
    "ignores_strides": (3, 100),
}
SHOWN = {
    "past_the_block": ((1000,), "96 bytes changed, the nearest 1 element past the end of output"),
    "one_past_the_end": ((1000,), "4 bytes changed, the nearest 1 element past the end of output"),
    "one_before_the_start": ((1024,), "4 bytes changed, the nearest 1 element before output"),
    "into_the_argument": ((1000,), "the nearest 1 element past the end of argument 0"),
    "tail_columns": ((3, 200), "differs from the reference"),
    "past_the_row": ((3, 100), "112 bytes changed, the nearest 1 element past the end of output"),
    "unmasked_read": ((1, 200), "reads out of bounds: 1 of 1 elements of output are NaN"),
}


def _checked(name: str, shape: tuple[int, ...]) -> str:
    bug = BUGS[name]
    x = torch.randn(shape, device="cuda")
    return check(bug.fn, (x,), {}, expected=bug.expected, rtol=1e-4, atol=1e-4, **bug.options).failure


@pytest.mark.parametrize("name", HIDDEN)
def test_bug_passes_at_the_size_that_hides_it(name: str) -> None:
    assert _checked(name, HIDDEN[name]) == ""


@pytest.mark.parametrize("name", SHOWN)
def test_bug_is_named_at_the_size_that_shows_it(name: str) -> None:
    shape, message = SHOWN[name]
    assert message in _checked(name, shape)


@pytest.mark.parametrize("elements", [1, 127, 128, 1023, 1152, 300_160, 3_000_064, 40_000_128])
def test_write_of_one_element_shows_at_every_size(elements: int) -> None:
    result = check(one_past_the_end, (torch.randn(elements, device="cuda"),), {}, expected=lambda x: x * 2)
    assert result.failure.endswith("4 bytes changed, the nearest 1 element past the end of output")


def test_packed_arguments_keep_their_shared_memory() -> None:
    qkv = torch.randn(33, 3, 4, 16, device="cuda")

    def share(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        return torch.full((1,), k.data_ptr() - q.data_ptr(), device="cuda")

    assert check(share, (qkv[:, 0], qkv[:, 1]), {}, expected=share).failure == ""


def test_check_after_a_failed_capture_leaves_the_process_alive() -> None:
    code = """
import gc, torch
from pytest_gpuperf.measure.correctness import check
x = torch.randn(64, 64, device="cuda")
x = x @ x.mT + 64 * torch.eye(64, device="cuda")
check(torch.linalg.cholesky, (x,), {}, expected=torch.linalg.cholesky)
try:
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        torch.linalg.cholesky(x).sum().item()
except RuntimeError:
    pass
for n in (1000, 3_000_000):
    y = torch.ones(n, device="cuda")
    assert check(torch.square, (y,), {}, expected=torch.square).passed
gc.collect()
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
