"""Outputs that are the former ones, and outputs that are merely wrong."""

from __future__ import annotations

import pytest
import torch

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.correctness.comparison import Tolerance
from pytest_gpuperf.measure.device.memory import fill
from pytest_gpuperf.measure.verification.reexecution import PATTERN, alike, matched, stale, wrong

OLD, NEW = torch.arange(100.0), torch.arange(100.0) + 0.5
TOLERANCE = Tolerance()


def is_stale(after: torch.Tensor, old: torch.Tensor = OLD, new: torch.Tensor = NEW) -> bool:
    return stale({"output": old}, {"output": after}, {"output": new}, TOLERANCE)


def partly(old: int, new: torch.Tensor = NEW) -> torch.Tensor:
    return torch.cat((OLD[:old], new[old:]))


@pytest.mark.parametrize("kept", [1, 50, 100])
def test_former_elements_are_stale(kept: int) -> None:
    assert is_stale(partly(kept))


def test_unwritten_elements_are_stale() -> None:
    output = NEW.clone()
    fill(output[10:20], PATTERN)
    assert is_stale(output)


def test_other_wrong_elements_are_not_stale() -> None:
    assert not is_stale(NEW + 1)
    assert is_stale(partly(50, NEW + 1))
    assert not is_stale(partly(49, NEW + 1))


def test_few_former_elements_of_many_are_not_stale() -> None:
    old, new = torch.arange(1000.0), torch.arange(1000.0) + 0.5
    assert not is_stale(torch.cat((old[:9], new[9:])), old, new)
    assert is_stale(torch.cat((old[:10], new[10:])), old, new)


def test_bytes_are_stale_only_as_a_whole() -> None:
    old = torch.arange(100) % 2 == 0
    assert is_stale(old, old, ~old)
    # Every wrong one of them has its former value, by necessity.
    assert not is_stale(torch.cat((old[:50], ~old[50:])), old, ~old)


def test_output_that_should_not_change_is_not_stale() -> None:
    assert not is_stale(OLD, OLD, OLD)


def test_shape_of_the_values_may_change() -> None:
    assert not is_stale(OLD[:3])


def test_few_wrong_elements_are_not_clear() -> None:
    target = {"output": torch.zeros(1000)}
    found = [
        wrong({"output": (torch.arange(1000.0) < count).float()}, target, TOLERANCE) for count in (0, 9, 10)
    ]
    assert [one and one.clear for one in found] == [None, False, True]
    other_shape = wrong({"output": torch.zeros(3)}, target, TOLERANCE)
    assert other_shape == ("output has shape [3], the reference [1000]", True)


def test_outputs_are_grouped_by_their_bits() -> None:
    nan = torch.full((2,), torch.nan)
    groups = alike([{"a": one} for one in (nan, nan.clone(), torch.zeros(2), -torch.zeros(2), nan)])
    assert groups == [[0, 1, 4], [2], [3]]


def test_reference_is_matched_by_name_or_order() -> None:
    outputs = {"output['a']": OLD, "output['b']": NEW}
    assert matched({"b": NEW, "a": OLD}, outputs)["output['b']"] is NEW
    assert matched([OLD, NEW], outputs)["output['b']"] is NEW
    with pytest.raises(GpuperfError, match="another number of tensors"):
        matched(OLD, outputs)
