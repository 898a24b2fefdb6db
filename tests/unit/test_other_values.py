"""Other values for timed arguments: plausible, in the same memory, and restored."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.device.memory import fill, fingerprint
from pytest_gpuperf.measure.reachable_tensors import copies
from pytest_gpuperf.measure.verification import perturbed_inputs as values_module
from pytest_gpuperf.measure.verification.perturbed_inputs import Values

if TYPE_CHECKING:
    from collections.abc import Callable


pytestmark = pytest.mark.usefixtures("host_counts_as_gpu")


def data(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


def changed(*tensors: torch.Tensor) -> list[torch.Tensor]:
    """Return other values of tensors, which have their first values again."""
    values = Values(tensors, {})
    values.another()()
    found = [tensor.clone() for tensor in tensors]
    values.restore()
    return found


def rolls(tensor: torch.Tensor) -> list[torch.Tensor]:
    return [tensor.roll(by, 0) for by in range(1, len(tensor))]


def test_rows_are_rolled_and_halved() -> None:
    x = data(5, 3)
    before = x.clone()
    (other,) = changed(x)
    assert any(torch.equal(other, one / 2) for one in rolls(x))
    assert torch.equal(x, before)


def test_tensors_of_one_length_are_rolled_alike() -> None:
    x = data(9, 3)
    one, other = changed(x, x[:, 0].clone())
    assert torch.equal(one[:, 0], other)


@pytest.mark.parametrize(
    "tensor",
    [
        data(8).sort().values,
        data(8).sort(descending=True).values,
        data(6, 6) @ data(6, 6).T,
        data(6, 6).tril(),
        data(2, 6, 6).triu(),
    ],
    ids=["ascending", "descending", "symmetric", "lower", "upper"],
)
def test_ordered_tensors_are_only_halved(tensor: torch.Tensor) -> None:
    assert torch.equal(changed(tensor)[0], tensor / 2)


@pytest.mark.parametrize(
    "tensor",
    [data(8, 3).round(), (data(8, 3) > 0).float(), data(8, 3).to(torch.float8_e4m3fn)],
    ids=["whole numbers", "mask", "8 bits"],
)
def test_some_tensors_are_only_rolled(tensor: torch.Tensor) -> None:
    (other,) = changed(tensor)
    assert any(torch.equal(other.float(), one) for one in rolls(tensor.float()))


@pytest.mark.parametrize(
    "tensor",
    [
        torch.arange(8),
        torch.ones(8),
        torch.zeros(4, 4),
        torch.tensor(0.5),
        torch.eye(4).log(),
        data(1, 4).expand(3, 4),
    ],
    ids=["integers", "ones", "zeros", "number", "infinities", "expanded"],
)
def test_some_tensors_stay(tensor: torch.Tensor) -> None:
    assert not Values((tensor,), {}).changeable


def test_infinities_stay_in_their_places() -> None:
    scores = data(8, 3).masked_fill(torch.ones(8, 3).triu(1) > 0, float("-inf"))
    (other,) = changed(scores)
    assert torch.equal(other, scores / 2)


def test_same_values_can_be_written_again() -> None:
    x = data(64, 3)
    write = Values((x,), {}).another()
    write()
    once = x.clone()
    x.zero_()
    write()
    assert torch.equal(x, once)


def test_version_of_a_tensor_does_not_change() -> None:
    x = data(8, 3)
    version = x._version
    changed(x)
    assert x._version == version


def made(shape: Callable[[int], int]) -> Callable[[int], tuple[tuple[torch.Tensor, ...], dict[str, object]]]:
    return lambda seed: ((torch.full((shape(seed),), float(seed)),), {})


def test_factory_gives_values_for_the_next_seeds() -> None:
    x = torch.full((4,), 7.0)
    values = Values((x,), {}, made(lambda _: 4), 7)
    for seed in (8, 9):
        values.another()()
        assert torch.equal(x, torch.full((4,), float(seed)))


def test_factory_of_other_shapes_is_refused() -> None:
    values = Values((torch.ones(4),), {}, made(lambda seed: seed), 4)
    with pytest.raises(GpuperfError, match="tensors of other names, shapes or types for another seed"):
        values.another()


def test_copies_are_such_views_as_the_tensors() -> None:
    conjugate = data(4, 2).to(torch.complex64).conj()
    for tensor in (conjugate, conjugate.imag):
        other = copies(tensor)
        assert (other.is_conj(), other.is_neg()) == (tensor.is_conj(), tensor.is_neg())
        fill(other, 0)
        assert not other.resolve_conj().resolve_neg().any()


def test_copies_keep_strides_and_shared_memory() -> None:
    base = data(8, 8)
    one, other = copies((base[1:, ::2], base))
    assert (one.stride(), one.storage_offset()) == ((8, 2), 8)
    other.zero_()
    assert not one.any()
    assert base.all()


def test_fingerprint_notices_a_new_order() -> None:
    x = data(9)
    assert fingerprint(x) != fingerprint(x.roll(1))


@pytest.mark.parametrize("tensor", [data(64, 3), data(8).sort().values], ids=["rolled", "halved"])
def test_each_set_of_values_is_new(tensor: torch.Tensor) -> None:
    values = Values((tensor,), {})
    found: list[torch.Tensor] = []
    for _ in range(values_module.FACTORS):
        values.another()()
        assert not any(torch.equal(tensor, one) for one in found)
        found.append(tensor.clone())
