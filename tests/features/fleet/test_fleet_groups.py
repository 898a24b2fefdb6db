"""Groups of tests of a fleet: their sizes, their order, and the effect of a lost worker."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pytest_gpuperf.features.fleet.groups import LOST_GROUPS, MOST_S, GroupQueue, TestGroup, make_groups
from pytest_gpuperf.features.fleet.messages import Test as Collected

MODEL = "nvidia-h200"
FREE = {"a": {MODEL: 2}, "b": {MODEL: 1}}


def collected(*counts: int) -> list[Collected]:
    return [Collected(f"test_{file}.py::test_{n}") for file, count in enumerate(counts) for n in range(count)]


def group(seconds: float, *tests: str, gpus: int = 1, lost_on: tuple[str, ...] = ()) -> TestGroup:
    return TestGroup(MODEL, tests or ("t",), gpus, seconds, lost_on)


@given(st.lists(st.integers(1, 30), min_size=1, max_size=5), st.integers(1, 40), st.floats(0.1, 900))
def test_each_test_is_in_one_group_of_its_file(counts: list[int], gpus: int, seconds: float) -> None:
    tests = collected(*counts)
    known = {test.nodeid: seconds for test in tests}
    groups = make_groups(MODEL, tests, known, gpus, 1)
    assert [nodeid for one in groups for nodeid in one.tests] == list(known)
    assert all(len({nodeid.partition("::")[0] for nodeid in one.tests}) == 1 for one in groups)
    assert all(one.seconds <= MOST_S or len(one.tests) == 1 for one in groups)


def test_tests_on_several_gpus_have_groups_of_their_own() -> None:
    tests = [Collected("test_a.py::test_1"), Collected("test_a.py::test_8", gpus=8)]
    assert [one.gpus for one in make_groups(MODEL, tests, {}, 4, 4)] == [1, 4]


def test_longest_group_goes_first_to_the_host_with_least_room() -> None:
    waiting = GroupQueue([group(1, "short"), group(9, "long")])
    assert waiting.take(FREE) == (group(9, "long"), "b")


def test_group_goes_elsewhere_after_a_loss() -> None:
    waiting = GroupQueue([])
    assert waiting.put_back(group(9), "b")
    assert waiting.take(FREE) == (group(9, lost_on=("b",)), "a")
    assert waiting.put_back(group(9), "b")
    assert waiting.take({"b": {MODEL: 1}}) == (group(9, lost_on=("b",)), "b")


def test_tests_run_alone_after_two_losses() -> None:
    waiting = GroupQueue([])
    assert waiting.put_back(group(8, "x", "y", lost_on=("a",) * (LOST_GROUPS - 1)), "b")
    assert sorted(waiting, key=lambda one: one.tests) == [group(4, "x"), group(4, "y")]


def test_group_on_several_gpus_goes_before_all_others() -> None:
    waiting = GroupQueue([group(9, "long"), group(1, "wide", gpus=2), group(1, "wider", gpus=3)])
    assert waiting.take(FREE) == (group(1, "wide", gpus=2), "a")
    assert waiting.take({"b": {MODEL: 1}}) == (group(9, "long"), "b")
    assert waiting.take(FREE) is None
    assert len(waiting) == 1
