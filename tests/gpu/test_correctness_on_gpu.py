"""Poisoned memory, streams and compiled functions on a real GPU."""

from __future__ import annotations

import pytest
import torch

from pytest_gpuperf.measure.correctness import check


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


class OnStreams:
    """Squares on a stream of its own.

    Args:
        forks: True if that stream waits for the current one.
        joins: True if the current stream waits for it.
        launches: True if it launches something on the current stream, too.
    """

    def __init__(self, *, forks: bool, joins: bool, launches: bool = True) -> None:
        self.stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        self.forks, self.joins, self.launches = forks, joins, launches

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        if self.launches:
            x[:1].clone()
        if self.forks:
            self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            out = x * x
        if self.joins:
            torch.cuda.current_stream().wait_stream(self.stream)
        return out


@pytest.mark.parametrize("elements", [100, 1_000_000, 100_000_000])
@pytest.mark.parametrize("forks", [False, True], ids=["apart", "forked"])
def test_output_of_a_stream_that_nobody_waits_for_is_late(elements: int, forks: bool) -> None:
    x = torch.randn(elements, device="cuda")
    for _ in range(20):
        result = check(OnStreams(forks=forks, joins=False), (x,), {}, expected=torch.square)
        assert "output is late" in result.failure


@pytest.mark.parametrize("elements", [100, 1_000_000, 100_000_000])
def test_output_of_a_joined_stream_is_in_time(elements: int) -> None:
    x = torch.randn(elements, device="cuda")
    for _ in range(20):
        assert check(OnStreams(forks=True, joins=True), (x,), {}, expected=torch.square).passed


def test_no_order_is_asked_without_work_on_the_current_stream() -> None:
    x = torch.randn(1_000_000, device="cuda")
    fn = OnStreams(forks=False, joins=False, launches=False)
    assert check(fn, (x,), {}, expected=torch.square).passed
