"""Red zones around arguments of a call on the CPU."""

from __future__ import annotations

import ctypes

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpuperf.measure.correctness import check
from pytest_gpuperf.measure.correctness.call_tensors import Arguments
from pytest_gpuperf.measure.correctness.guarded_call import GuardedArguments, call_between_red_zones
from pytest_gpuperf.measure.correctness.guarded_memory import (
    ALIGNMENT,
    Neighbour,
    Requests,
    Zone,
    near,
    unused,
    written,
)

POISON = (0x5A5A5A5A, 0xFFFFFFFF)


def _poke(tensor: torch.Tensor, element: int) -> None:
    """Write next to a tensor, but only into a red zone: the other calls must not harm this process."""
    place = ctypes.c_uint32.from_address(tensor.data_ptr() + 4 * element)
    if place.value in POISON:
        place.value = 0x40400000


def _peek(tensor: torch.Tensor, element: int) -> float:
    return ctypes.c_float.from_address(tensor.data_ptr() + 4 * element).value


@pytest.mark.parametrize(
    ("element", "where"),
    [(100, "1 element past the end of"), (102, "3 elements past"), (-1, "1 element before")],
)
def test_write_next_to_an_argument_fails_with_its_distance(element: int, where: str) -> None:
    def square(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        torch.square(x, out=out)
        _poke(x, element)
        return out

    result = check(square, (torch.randn(100),), {}, expected=torch.square)
    assert "the function writes out of bounds:\n4 bytes changed, the nearest " + where in result.failure
    assert result.failure.endswith("argument 0")


@pytest.mark.parametrize("padding", [0, 50])
def test_read_out_of_bounds_fails(padding: int) -> None:
    def square(x: torch.Tensor) -> torch.Tensor:
        beyond = _peek(x, 100)
        out = torch.empty(100 + padding)
        out[:100] = x * x + (beyond if beyond != beyond else 0)
        return out

    # Outside of the red zones a zero follows, and not the rest of an earlier test.
    x = torch.frombuffer(bytearray(404), dtype=torch.float32, count=100)
    failure = check(square, (x,), {}, expected=torch.square).failure
    assert failure.startswith("the function reads out of bounds: 100 of 100 elements of output are NaN")


def test_changed_arguments_are_kept_outside_of_memory_that_ends_with_the_red_zones() -> None:
    given = []

    def double(x: torch.Tensor) -> None:
        given.append(x.data_ptr())
        x.mul_(2)

    x = torch.randn(100)
    found = call_between_red_zones(double, (x,), {}, Arguments((x,), {}, (0,)))
    assert torch.equal(found.outputs["argument 0"], x * 2)
    assert found.outputs["argument 0"].data_ptr() not in given


def test_function_that_refuses_copies_of_arguments_passes() -> None:
    x = torch.randn(100)

    def known(y: torch.Tensor) -> torch.Tensor:
        if y is not x:
            raise ValueError("another tensor")
        return y * y

    assert check(known, (x,), {}, expected=lambda y: y * y).passed


def test_arguments_keep_strides_offset_alignment_and_sharing() -> None:
    base = torch.randn(8, 3, 5)
    views = (base[:, 1], base[:, 2].mT, torch.nn.Parameter(torch.randn(7)[1:]))
    copies = GuardedArguments(views, {}, {}).args
    for view, copied in zip(views, copies, strict=True):
        assert torch.equal(view, copied)
        assert type(view) is type(copied)
        assert (view.stride(), view.storage_offset()) == (copied.stride(), copied.storage_offset())
        assert view.untyped_storage().nbytes() == copied.untyped_storage().nbytes()
        assert view.data_ptr() % ALIGNMENT == copied.data_ptr() % ALIGNMENT
    assert copies[0].untyped_storage().data_ptr() == copies[1].untyped_storage().data_ptr()


def test_tensors_in_containers_are_copied_and_others_stay() -> None:
    x = torch.randn(3)
    stay = (x.requires_grad_() * 2), torch.eye(2).to_sparse(), torch.ones(2)
    vars(stay[2])["is_pinned"] = lambda: True  # memory that a kernel may read
    nested, others = GuardedArguments(([x, {"y": x}], (*stay, 5)), {"z": x}, {}).args
    assert nested[0] is nested[1]["y"]
    assert nested[0] is not x
    assert nested[0].requires_grad
    assert list(map(id, others)) == list(map(id, (*stay, 5)))


def test_zone_between_two_tensors_names_the_nearer_one() -> None:
    memory = torch.full((64,), 0x5A, dtype=torch.uint8)
    zone = Zone(memory, 0x5A, before=Neighbour("a", 4), after=Neighbour("b", 2))
    assert written([zone]) == []
    memory[58:62] = 0
    assert written([zone]) == ["4 bytes changed, the nearest 2 elements before b"]
    memory[1] = 0
    assert written([zone]) == ["5 bytes changed, the nearest 1 element past the end of a"]


def test_zone_without_neighbours_counts_its_bytes() -> None:
    memory = torch.full((64,), 0x5A, dtype=torch.uint8)
    memory[1:3] = 0
    assert written([Zone(memory, 0x5A)]) == ["2 bytes changed that belong to no tensor"]


def test_requests_at_the_same_time_are_counted_by_size() -> None:
    events = [
        ("alloc", 1000, 400),
        ("alloc", 2000, 400),
        ("free_requested", 1000, 400),
        ("free_completed", 1000, 400),
        ("alloc", 1000, 400),
        ("alloc", 3000, 28),
        ("free_completed", 9000, 400),
        ("segment_alloc", 4000, 2**21),
    ]
    requests = Requests([{"action": action, "addr": at, "size": size} for action, at, size in events])
    assert requests.at_once() == {400: 2, 28: 1}
    assert requests.allocations == [(1000, 400), (2000, 400), (1000, 400), (3000, 28)]


@given(st.lists(st.tuples(st.integers(0, 90), st.integers(1, 30)), max_size=8))
def test_unused_parts_are_all_bytes_that_no_request_got(allocations: list[tuple[int, int]]) -> None:
    allocations = [(100 + at, min(size, 100 - at)) for at, size in allocations]
    got = {byte for at, size in allocations for byte in range(at, at + size)}
    parts = list(unused(100, 200, allocations))
    assert {byte for start, stop, *_ in parts for byte in range(start, stop)} == set(range(100, 200)) - got
    for start, stop, before, after in parts:
        assert start == 100 if before == 0 else any(at + size == start for at, size in allocations)
        assert after == (0 if stop == 200 else stop)


def test_only_the_ends_of_large_parts_are_zones() -> None:
    wide, zone = 2**30, 2**21
    parts = [(0, 100, 0, 0), (0, 100, 0, 100), (0, wide, 0, 0), (0, wide, 7, 9)]
    assert list(near(iter(parts))) == [(0, 100, 0, 100), (0, zone, 7, 0), (wide - zone, wide, 0, 9)]
