"""Assignment of errors to tests by the marks around them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pytest_gpuperf.features.sanitizer.hit_assignment import HitsByTest, assign
from pytest_gpuperf.features.sanitizer.markers import marker_name
from pytest_gpuperf.records import SanitizerHit
from pytest_gpuperf.records.passes import Event

A, B, C = "t.py::a", "t.py::b", "t.py::c"


def marks(*nodeids: str) -> list[Event]:
    """Return two marks for each test, and one for the end."""
    owners = [nodeid for nodeid in nodeids for _ in range(2)]
    return [Event(nodeid, "", marker_name(n)) for n, nodeid in enumerate([*owners, ""], start=1)]


def log(*entries: int | str) -> list[SanitizerHit | str]:
    """Return a log: a number stands for a mark, a text for the kernel of an error."""
    names = (marker_name(entry) if isinstance(entry, int) else entry for entry in entries)
    return [SanitizerHit(kind="error", kernel=name) for name in names]


def kernels(assigned: HitsByTest) -> dict[str, list[str]]:
    return {nodeid: [hit.kernel for hit in hits.first(9)] for nodeid, hits in assigned.hits.items()}


def test_error_belongs_to_the_last_mark() -> None:
    assigned = assign(marks(A, B), log(1, "x", 2, 3, "y", 4, "z", 5))
    assert kernels(assigned) == {A: ["x"], B: ["y", "z"]}
    assert assigned.settled == {A, B}


def test_marks_out_of_order_do_not_go_back() -> None:
    assigned = assign(marks(A, B), log(1, 3, 2, "x", 4, 5))
    assert kernels(assigned) == {B: ["x"]}


def test_unannounced_mark_is_not_an_error() -> None:
    assigned = assign(marks(A)[:-1], log(1, 2, 3))
    assert kernels(assigned) == {}
    assert assigned.settled == {A}


def test_without_any_mark_the_tool_is_blind() -> None:
    assigned = assign(marks(A), ["Error: x"])
    assert assigned.blind
    assert assigned.words == ["Error: x"]
    assert not assign(marks(A), log(1)).blind


def test_equal_errors_at_other_addresses_are_counted() -> None:
    same = [SanitizerHit(kind=f"copy from 0x{n:x}", kernel="k", threads=((n, 0, 0),)) for n in range(3)]
    hits = assign(marks(A), [*log(1), *same, *log(2, 3)]).hits[A]
    (hit,) = hits.first(9)
    assert (hit.count, hit.kind, hits.count) == (3, "copy from 0x0", 3)


@given(errors=st.lists(st.integers(0, 2), min_size=6, max_size=6), lost=st.sets(st.integers(1, 7)))
def test_lost_marks_never_move_errors_between_tests(errors: list[int], lost: set[int]) -> None:
    """Check also that a settled test keeps all of its errors."""
    told = marks(A, B, C)
    entries: list[int | str] = []
    for number, mark in enumerate(told, start=1):
        entries += [] if number in lost else [number]
        entries += [mark.nodeid] * (errors[number - 1] if mark.nodeid else 0)
    assigned = assign(told, log(*entries))
    for nodeid, found in kernels(assigned).items():
        assert found == [nodeid]
    for nodeid in assigned.settled:
        count = assigned.hits[nodeid].count if nodeid in assigned.hits else 0
        assert count == entries.count(nodeid)
    if not lost:
        assert assigned.settled == {A, B, C}
