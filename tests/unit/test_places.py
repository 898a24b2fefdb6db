"""Places in memory that a call takes turns with, on the host."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.device import originals
from pytest_gpuperf.measure.timing import graph, places
from pytest_gpuperf.measure.timing.batch import Block
from pytest_gpuperf.measure.timing.places import PLACES, Places

OUTPUT_BYTES = 400


class Allocator:
    """Gives memory by its size: of equal free blocks the one at the lowest address, as torch does.

    Attributes:
        held: Sizes of the memory in use, by address.
    """

    def __init__(self) -> None:
        self.held: dict[int, int] = {}
        self._free: dict[int, int] = {}

    def give(self, size: int) -> Memory:
        fitting = [at for at, free in self._free.items() if free == size]
        address = min(fitting, default=len(self.held) + len(self._free))
        self._free.pop(address, None)
        self.held[address] = size
        return Memory(self, address)

    def take_back(self, address: int) -> None:
        self._free[address] = self.held.pop(address)


class Memory:
    def __init__(self, owner: Allocator, address: int) -> None:
        self.address = address
        self._owner = owner

    def __del__(self) -> None:
        self._owner.take_back(self.address)


class Call:
    """A call that notes its place, and the address of its output."""

    nbytes = 1000

    def __init__(self, allocator: Allocator, seen: list[tuple[int, int]], place: int) -> None:
        self._allocator, self._seen, self._place = allocator, seen, place
        self.output = torch.zeros(OUTPUT_BYTES // 4)
        self.addresses: set[int] = set()

    def __call__(self) -> Any:
        self._seen.append((self._place, self._allocator.give(OUTPUT_BYTES).address))
        return self.output


@pytest.fixture
def allocator(monkeypatch: pytest.MonkeyPatch) -> Allocator:
    found = Allocator()
    monkeypatch.setattr(places, "_memory", found.give)
    monkeypatch.setattr(places, "free_bytes", lambda: 80 << 30)
    monkeypatch.setattr(originals, "synchronize", lambda: None)
    monkeypatch.setattr(graph, "_is_on_gpu", lambda _: True)
    return found


def test_outputs_meet_copies_of_arguments_in_turn(allocator: Allocator) -> None:
    seen: list[tuple[int, int]] = []
    numbers = iter(range(1, PLACES))
    several = Places(Call(allocator, seen, 0), lambda: Call(allocator, seen, next(numbers)))  # type: ignore[arg-type, return-value]
    assert {place for place, _ in seen} == {*range(PLACES)}  # each was called once before
    seen.clear()
    for _ in range(PLACES * PLACES):
        several.next()()
    assert [place for place, _ in seen] == [*range(PLACES)] * PLACES
    assert len(set(seen)) == PLACES * PLACES


def test_output_that_is_an_argument_needs_no_other_memory(allocator: Allocator) -> None:
    def elsewhere() -> Any:
        call = Call(allocator, [], 1)
        call.addresses = {call.output.data_ptr()}
        return call

    several = Places(lambda: None, elsewhere)
    assert OUTPUT_BYTES not in allocator.held.values()
    assert len(several.calls) == PLACES


def test_memory_of_places_is_given_back(allocator: Allocator) -> None:
    several = Places(lambda: None, lambda: Call(allocator, [], 1))  # type: ignore[arg-type, return-value]
    assert allocator.held
    del several
    assert not allocator.held


def test_places_leave_most_of_the_free_memory(allocator: Allocator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "free_bytes", lambda: 1 << 30)
    with pytest.raises(GpuperfError, match=r"16 places take up to 0\.9"):
        Places(lambda: None, lambda: Call(allocator, [], 1))  # type: ignore[arg-type, return-value]
    assert not allocator.held


@pytest.mark.parametrize(("least_us", "expected"), [(10.0, True), (9.2, True), (9.0, False)])
def test_places_agree_up_to_a_tenth(allocator: Allocator, least_us: float, *, expected: bool) -> None:
    """A block that is disturbed for once does not count."""
    several = Places(lambda: None, lambda: Call(allocator, [], 1))  # type: ignore[arg-type, return-value]
    blocks = [Block(least_us if at % PLACES == 3 else 10.0) for at in range(2 * PLACES)]
    assert several.agree([*blocks[:-1], Block(20.0)]) is expected
