"""Types that outputs may have, and references that tell little."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from pytest_gpuperf.measure.correctness import check
from pytest_gpuperf.measure.correctness.comparison import Tolerance, low_signal
from pytest_gpuperf.measure.correctness.late_writes import strange_types


class Lazy(torch.Tensor):
    """A tensor that could compute its values when it is read."""


class Pair(NamedTuple):
    one: Any
    two: Any


class LateList(list[Any]):
    def __getitem__(self, at: Any) -> Any:
        return super().__getitem__(at)


class LateDict(dict[str, Any]):
    def items(self) -> Any:
        return super().items()


class AttributesDict(dict[str, Any]):
    __getattr__ = dict.__getitem__


@dataclass
class Fields:
    y: Any
    lse: Any


@dataclass
class LateFields:
    y: Any

    def __post_init__(self) -> None:
        type(self).y = property(lambda _: torch.ones(4))


def lazy() -> torch.Tensor:
    return torch.ones(4).as_subclass(Lazy)


@pytest.mark.parametrize(
    "value",
    [
        torch.ones(4),
        torch.nn.Parameter(torch.ones(4)),
        torch.nn.Buffer(torch.ones(4)),
        torch.ones(4).max(0),
        [Pair(torch.ones(4), None), OrderedDict(a=np.ones(4)), AttributesDict(y=3)],
        Fields(torch.ones(4), [torch.ones(4)]),
        3.0,
        None,
    ],
    ids=["tensor", "parameter", "buffer", "torch's tuple", "containers", "dataclass", "number", "none"],
)
def test_usual_types_are_accepted(value: object) -> None:
    assert not list(strange_types(value))


@pytest.mark.parametrize(
    "value", [lazy(), LateList(), LateDict(), LateFields(1)], ids=["tensor", "list", "dict", "dataclass"]
)
def test_types_of_the_program_are_named(value: object) -> None:
    ((kind, text),) = strange_types((value,))
    assert kind is type(value)
    assert text.startswith(f"output[0] is a {kind.__name__} of the module test_output_types; expected a")


def test_fields_of_a_dataclass_are_compared_by_their_names() -> None:
    def expected(x: torch.Tensor) -> Fields:
        return Fields(x + 1, [x.double()])

    x = torch.randn(8)
    assert check(lambda x: Fields(x + 1, [x.clone()]), (x,), {}, expected=expected).passed
    wrong = check(lambda x: Fields(x + 1, [x + 1]), (x,), {}, expected=expected)
    assert "output.lse[0] differs from the reference" in wrong.failure


@pytest.mark.parametrize("from_argument", [True, False])
def test_type_of_arguments_or_reference_is_accepted(*, from_argument: bool) -> None:
    x = lazy() if from_argument else torch.ones(4)
    reference = (lambda x: x) if from_argument else (lambda x: x.as_subclass(Lazy))
    assert check(lambda x: x.as_subclass(Lazy), (x,), {}, expected=reference).passed


def test_reference_is_computed_after_the_calls() -> None:
    order: list[str] = []

    def fn(x: torch.Tensor) -> torch.Tensor:
        order.append("fn")
        return x + 1

    def reference(x: torch.Tensor) -> torch.Tensor:
        order.append("reference")
        return x + 1

    check(fn, (torch.arange(4.0),), {}, expected=reference)
    assert order[:7] == ["fn"] * 6 + ["reference"]
    assert "fn" not in order[6:]


@pytest.mark.parametrize(
    ("reference", "text"),
    [
        (torch.zeros(16), "the reference of output is all zero"),
        (torch.full((16,), 2, dtype=torch.int32), "the reference of output is 2 everywhere"),
        (torch.linspace(1, 1.002, 16, dtype=torch.bfloat16), "the reference of output is 1 everywhere"),
        (torch.linspace(1, 1.01, 16, dtype=torch.float16).float(), ""),
        (torch.arange(16.0), ""),
        (torch.zeros(15), ""),
        (torch.zeros(16, dtype=torch.complex64), ""),
        (torch.full((16,), 7, dtype=torch.uint32), "the reference of output is 7 everywhere"),
        (torch.tensor([-torch.inf, torch.inf] * 8), ""),
    ],
)
def test_reference_that_one_constant_matches_is_described(reference: torch.Tensor, text: str) -> None:
    assert low_signal("output", reference, reference.dtype, Tolerance()) == text


def test_small_spread_within_a_wide_tolerance_is_described() -> None:
    found = low_signal("output", torch.linspace(1, 1.01, 16), torch.float32, Tolerance(0.1, 0.0))
    assert found == "the reference of output varies from 1 to 1.01, within the tolerance"
