from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

from pytest_gpuperf.measure.correctness import check
from pytest_gpuperf.measure.correctness.call_tensors import argument_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_gpuperf.records import Correctness

X = torch.ones(10, 100)


def sizes(fn: Callable[[torch.Tensor], object], x: torch.Tensor = X) -> tuple[int, int, int]:
    found: Correctness = check(fn, (x,), {}, expected=lambda x: x * 1)
    assert found.passed
    return found.argument_bytes, found.output_bytes, found.written_bytes


@pytest.mark.parametrize(
    ("fn", "output_bytes", "written_bytes"),
    [(torch.clone, 4000, 4000), (lambda x: x, 0, 0), (lambda x: torch.ones(1).expand(10, 100), 4, 4)],
)
def test_only_what_is_new_is_written(
    fn: Callable[[torch.Tensor], object], output_bytes: int, written_bytes: int
) -> None:
    assert sizes(fn) == (4000, output_bytes, written_bytes)


def test_kept_output_is_not_written() -> None:
    kept: list[torch.Tensor] = []

    def memoised(x: torch.Tensor) -> torch.Tensor:
        if not kept:
            kept.append(x.clone())
        return kept[0]

    assert sizes(memoised) == (4000, 4000, 0)


def test_new_view_of_a_kept_buffer_is_not_written() -> None:
    buffer = torch.empty(2000)

    def partly(x: torch.Tensor) -> torch.Tensor:
        buffer[:1000] = x.flatten()
        return buffer[:1000].view(10, 100)

    assert sizes(partly) == (4000, 4000, 0)


def test_arguments_that_share_memory_count_once() -> None:
    tree = (X, {"row": X[0], "other": torch.ones(3)}, [X[1:3].t()])
    assert argument_bytes(tree, {"x": X}) == 4000 + 12


def test_small_view_of_a_large_allocation_counts_by_itself() -> None:
    assert argument_bytes((torch.ones(10**6)[:5],), {}) == 20


def test_size_of_a_sparse_argument_is_unknown() -> None:
    assert argument_bytes((X, X.to_sparse()), {}) == 0
