"""Poisoned memory and compiled functions on a real GPU."""

from __future__ import annotations

import pytest
import torch

from pytest_gpuperf.measure.correctness import check

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU"),
]


@pytest.mark.parametrize("elements", [100, 300_000, 3_000_000, 40_000_000])
@pytest.mark.parametrize("temporary", [False, True], ids=["alone", "after a temporary"])
def test_element_never_written_on_the_gpu_fails(elements: int, temporary: bool) -> None:
    def almost(x: torch.Tensor) -> torch.Tensor:
        scratch = torch.empty_like(x) if temporary else None
        out = torch.empty_like(x)
        out[:-1] = x[:-1] ** 2
        del scratch
        return out

    x = torch.randn(elements, device="cuda")
    result = check(almost, (x,), {}, expected=torch.square)
    assert f"1 of {elements} elements is never written, the first at [{elements - 1}]" in result.failure


def test_compiled_function_stays_compiled_while_checked() -> None:
    runs_of_python = []

    @torch.compile
    def square(x: torch.Tensor) -> torch.Tensor:
        if not torch.compiler.is_compiling():
            runs_of_python.append(1)
        return x * x

    x = torch.randn(1000, device="cuda")
    assert check(square, (x,), {}, expected=torch.square).passed
    assert not runs_of_python
