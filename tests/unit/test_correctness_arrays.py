"""Arrays of libraries other than torch as outputs, references and arguments."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.correctness import call_tensors, check


class Array:
    """An array that only gives DLPack."""

    def __init__(self, *values: float) -> None:
        self.tensor = torch.tensor(values, dtype=torch.float32)

    def __dlpack__(self, **_: object) -> Any:
        return self.tensor.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


class Unreadable:
    def __dlpack__(self, **_: object) -> Any:
        raise BufferError("it is on two devices")

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


def double(x: Array) -> Array:
    return Array(*(2 * x.tensor).tolist())


@pytest.mark.parametrize(
    "expected",
    [double, lambda x: np.array([2.0, 4.0], np.float32), torch.tensor([2.0, 4.0])],
    ids=["same library", "NumPy", "torch"],
)
def test_array_of_another_library_is_compared(expected: Any) -> None:
    assert check(double, (Array(1, 2),), {}, expected=expected).passed


def test_wrong_array_of_another_library_fails() -> None:
    result = check(double, (Array(1, 2),), {}, expected=lambda x: np.array([2.0, 5.0], np.float32))
    assert (result.passed, result.mismatched) == (False, 1)


def test_changed_argument_of_another_library_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_tensors, "ON_GPU", {1})

    def doubled_in_place(x: Array) -> Array:
        x.tensor *= 2
        return Array(*x.tensor.tolist())

    x = Array(1, 2)
    result = check(doubled_in_place, (x,), {}, expected=double)
    assert "argument 0 was changed: 2 of 2 elements" in result.failure
    assert x.tensor.tolist() == [1, 2]
    x = Array(1, 2)
    assert check(doubled_in_place, (x,), {}, expected=double, mutates=(0,)).passed


def test_unreadable_output_is_refused_by_name() -> None:
    with pytest.raises(GpuperfError, match=r"output\[1\] is a .*Unreadable that torch cannot read: it is"):
        check(lambda: [torch.ones(1), Unreadable()], (), {}, expected=torch.ones(1))


def test_unreadable_argument_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_tensors, "ON_GPU", {1})
    assert check(lambda _: torch.ones(1), (Unreadable(),), {}, expected=torch.ones(1)).passed


def test_arrays_of_a_reference_move_to_the_device_of_the_output() -> None:
    there = torch.device("meta")
    found = call_tensors.moved({"a": [np.ones(2), torch.ones(2)], "n": 3}, there)
    assert [one.device.type for one in found["a"]] == ["meta", "cpu"]
    assert found["n"] == 3


def test_outputs_are_compared_when_jax_has_computed_them(monkeypatch: pytest.MonkeyPatch) -> None:
    def block_until_ready(value: object) -> None:
        if isinstance(value, Array):
            value.tensor.fill_(3)

    monkeypatch.setitem(sys.modules, "jax", SimpleNamespace(block_until_ready=block_until_ready))
    assert check(lambda _: Array(0, 0), (Array(0, 0),), {}, expected=torch.tensor([3.0, 3.0])).passed
