"""Seeds of libraries that are imported."""

from __future__ import annotations

import random
import sys
from types import SimpleNamespace

import numpy
import pytest

from pytest_gpuperf.session.seeds import random_numbers_kept, seed, seed_of

pytestmark = pytest.mark.usefixtures("_seed_restored")


@pytest.mark.parametrize("draw", [random.random, numpy.random.random], ids=["random", "numpy"])
def test_same_seed_gives_same_numbers(draw) -> None:  # type: ignore[no-untyped-def]
    seed(3)
    first = draw()
    assert draw() != first
    seed(3)
    assert draw() == first


@pytest.mark.parametrize("has_gpu", [True, False])
def test_imported_torch_is_seeded(monkeypatch: pytest.MonkeyPatch, has_gpu: bool) -> None:
    everywhere: list[int] = []
    on_cpu: list[int] = []
    torch = SimpleNamespace(
        manual_seed=everywhere.append,
        default_generator=SimpleNamespace(manual_seed=on_cpu.append),
        cuda=SimpleNamespace(is_available=lambda: has_gpu),
    )
    monkeypatch.setitem(sys.modules, "torch", torch)
    seed(5)
    assert (everywhere, on_cpu) == (([5], []) if has_gpu else ([], [5]))


def test_numbers_of_every_gpu_are_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    state = ["before"]
    cuda = SimpleNamespace(is_initialized=lambda: True, set_rng_state_all=state.append)
    cuda.get_rng_state_all = lambda: state[-1]
    torch = SimpleNamespace(random=0, get_rng_state=int, set_rng_state=str, cuda=cuda)
    monkeypatch.setitem(sys.modules, "torch", torch)
    with random_numbers_kept():
        state.append("after")
    assert state[-1] == "before"


@pytest.mark.parametrize("name", ["numpy", "torch"])
def test_libraries_are_not_imported_to_be_seeded(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.delitem(sys.modules, name, raising=False)
    seed(1)
    assert name not in sys.modules


def test_seed_of_a_test_never_changes() -> None:
    assert seed_of("test_k.py::test_a[1]") == 0xB3F40946
    assert 0 <= seed_of("test_k.py::test_a[\udce4]") < 2**32
