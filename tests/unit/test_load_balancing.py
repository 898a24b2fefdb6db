"""Tests spread over workers and shards."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pytest_gpuperf.session.expected_durations import expected_durations
from pytest_gpuperf.session.load_balancing import DETOUR, spread

DURATIONS = st.dictionaries(st.sampled_from([f"t{n}" for n in range(60)]), st.floats(0.01, 100), max_size=60)


def total(part: list[str], seconds: dict[str, float]) -> float:
    return sum(expected_durations(part, seconds).values())


@given(tests=st.sets(st.integers(0, 99), max_size=60), known=DURATIONS, count=st.integers(1, 8))
def test_each_test_is_in_one_part_and_in_order(tests: set[int], known: dict[str, float], count: int) -> None:
    nodeids = [f"t{n}" for n in sorted(tests)]
    parts = spread(nodeids, known, {}, [""] * count)
    assert len(parts) == count
    assert sorted(nodeid for part in parts for nodeid in part) == sorted(nodeids)
    assert all(part == sorted(part, key=nodeids.index) for part in parts)


@given(known=DURATIONS, order=st.permutations([f"t{n}" for n in range(12)]), count=st.integers(1, 5))
def test_shards_collected_in_any_order_agree(known: dict[str, float], order: list[str], count: int) -> None:
    parts, others = (spread(names, known, {}, [""] * count) for names in (order, sorted(order)))
    assert [set(part) for part in parts] == [set(part) for part in others]


@given(seconds=st.lists(st.floats(0.5, 5), min_size=200, max_size=400), count=st.integers(2, 5))
def test_parts_of_many_tests_differ_by_less_than_ten_percent(seconds: list[float], count: int) -> None:
    known = {f"t{n}": time for n, time in enumerate(seconds)}
    totals = [total(part, known) for part in spread([*known], known, {}, [""] * count)]
    assert max(totals) <= 1.1 * min(totals)


def test_test_goes_to_the_card_of_its_baseline() -> None:
    homes = {"a": "GPU-1", "b": "GPU-0", "c": "GPU-1", "d": "GPU-0"}
    assert spread([*homes], dict.fromkeys(homes, 1.0), homes, ["GPU-0", "GPU-1"]) == [["b", "d"], ["a", "c"]]


@given(known=DURATIONS.filter(bool))
def test_card_of_the_baseline_costs_at_most_its_share(known: dict[str, float]) -> None:
    homes = dict.fromkeys(known, "GPU-1")
    first, second = (
        sum(known[n] for n in part) for part in spread([*known], known, homes, ["GPU-0", "GPU-1"])
    )
    assert second - first <= max(known.values()) + DETOUR * sum(known.values()) / 2 + 1e-9


def test_unknown_card_is_no_home() -> None:
    assert spread(["a", "b"], {}, {"a": "GPU-9", "b": "GPU-9"}, ["GPU-0", ""]) == [["a"], ["b"]]
