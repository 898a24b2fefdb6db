"""Places in memory that a call takes turns with, on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch

from pytest_gpuperf.measure.timing import graph, places
from pytest_gpuperf.measure.timing.batch import Block
from pytest_gpuperf.measure.timing.places import PLACES, Places, agree

if TYPE_CHECKING:
    from collections.abc import Callable


class Allocator:
    """Gives memory by its size: what was given back last comes first, as torch's best fit for equal sizes.

    Attributes:
        held: Sizes of the memory in use, by address.
    """

    def __init__(self) -> None:
        self.held: dict[int, int] = {}
        self._free: list[tuple[int, int]] = []

    def give(self, size: int) -> Memory:
        address = next((at for at, free in self._free if free == size), len(self.held) + len(self._free))
        self._free = [one for one in self._free if one[0] != address]
        self.held[address] = size
        return Memory(self, address)

    def take_back(self, address: int) -> None:
        self._free.append((address, self.held.pop(address)))


class Memory:
    def __init__(self, owner: Allocator, address: int) -> None:
        self.address = address
        self._owner = owner

    def __del__(self) -> None:
        self._owner.take_back(self.address)


@pytest.fixture
def allocator(monkeypatch: pytest.MonkeyPatch) -> Allocator:
    found = Allocator()
    monkeypatch.setattr(places, "_memory", found.give)
    monkeypatch.setattr(graph, "_is_on_gpu", lambda _: True)
    return found


def call(place: int, seen: list[tuple[int, int]], allocator: Allocator) -> Callable[[], Any]:
    """Return a call that notes its place, and the address of its output of 400 bytes."""

    def run() -> torch.Tensor:
        seen.append((place, allocator.give(400).address))
        return torch.zeros(100)

    return run


def test_outputs_meet_copies_of_arguments_in_turn(allocator: Allocator) -> None:
    seen: list[tuple[int, int]] = []
    numbers = iter(range(1, PLACES))
    several: Any = Places(
        call(0, seen, allocator),
        lambda: call(next(numbers), seen, allocator),  # type: ignore[arg-type, return-value]
    )
    seen.clear()
    for _ in range(PLACES * PLACES):
        several.next()()
    assert [place for place, _ in seen] == [*range(PLACES)] * PLACES
    assert len(set(seen)) == PLACES * PLACES


def test_memory_of_places_is_given_back(allocator: Allocator) -> None:
    several = Places(lambda: torch.zeros(100), lambda: lambda: None)  # type: ignore[arg-type, return-value]
    several.next()
    assert allocator.held
    del several
    assert not allocator.held


@pytest.mark.parametrize(("least_us", "expected"), [(10.0, True), (9.2, True), (9.0, False)])
def test_places_agree_up_to_a_tenth(least_us: float, *, expected: bool) -> None:
    blocks = [Block(least_us if at % PLACES == 3 else 10.0) for at in range(4 * PLACES)]
    assert agree(blocks) is expected
