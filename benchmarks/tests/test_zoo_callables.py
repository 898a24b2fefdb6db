"""The callables of the zoo on the CPU: each runs, and its reference agrees."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

import pytest
import torch

from benchmarks.zoo.cases import tensors_in, zoo

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.zoo.cases import Animal

ON_CPU = [animal for animal in zoo().values() if not animal.cuda]


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Many small operators are faster without other threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def of_call(value: object, args: tuple[Any, ...], mutates: tuple[int, ...]) -> list[torch.Tensor]:
    found = value if value is not None else [args[at] for at in mutates]
    return [one.detach().clone() for one in tensors_in(found)]


def test_there_are_at_least_250() -> None:
    assert len(zoo()) >= 250


@pytest.mark.parametrize("animal", ON_CPU, ids=lambda animal: animal.name)
def test_callable_agrees_with_its_reference_on_the_cpu(animal: Animal) -> None:
    try:
        one = animal.make(torch.device("cpu"))
    except ImportError as missing:
        pytest.skip(str(missing))
    if one.expected is None:
        one.fn(*one.args)
        return
    memo = {id(x): x.clone() for x in tensors_in(one.args) if x.layout != torch.strided}
    copied = deepcopy(one.args, memo)
    expected = of_call(one.expected(*copied), copied, one.mutates)
    actual = of_call(one.fn(*one.args), one.args, one.mutates)
    assert len(actual) == len(expected) > 0
    for mine, theirs in zip(actual, expected, strict=True):
        torch.testing.assert_close(
            mine, theirs, rtol=one.rtol, atol=one.atol, check_dtype=False, check_stride=False
        )
