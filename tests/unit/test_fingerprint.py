"""Facts that two calls need in common to be compared."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from pytest_gpuperf.records.call import Call


def described(*args: Any, **kwargs: Any) -> tuple[str, ...]:
    return Call("test_k.py::test_k", "main", print, args, kwargs).fingerprint("hot", 0, 0).arguments


def test_a_call_is_described_by_its_arguments() -> None:
    found = described(torch.ones(2, 3).T, [1, None, (2.5, "path")], causal=True)
    assert found == ("float32[3, 2] by [1, 3]", "1", "None", "2.5", "str", "True")


def test_numbers_beyond_the_limit_are_counted() -> None:
    assert described(*range(70))[-2:] == ("63", "and 6 more")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (lambda: np.ones((2, 3)), "float64[2, 3]"),
        (lambda: torch.eye(3).to_sparse_csr(), "float32[3, 3]"),
        (lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]), "Tensor"),
    ],
    ids=["array", "sparse", "nested"],
)
def test_a_tensor_without_strides_is_described(value: Any, expected: str) -> None:
    assert described(value()) == (expected,)


@pytest.mark.filterwarnings("ignore")
def test_jagged_sizes_of_two_processes_are_alike() -> None:
    rows = [torch.ones(2, 2), torch.ones(3, 2)]
    one, two = (torch.nested.nested_tensor(rows, layout=torch.jagged) for _ in range(2))
    assert described(one) == described(two) == ("float32[2, None, 2]",)
