"""`break_even`, with numbers computed by hand and with any numbers."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpuperf import GpuperfError, break_even

numbers = st.floats(-1e4, 1e4)


@st.composite
def changes(draw: st.DrawFn) -> tuple[list[float], list[float], list[float]]:
    """Draw sizes, times saved and launches added."""
    sizes = draw(st.lists(st.integers(1, 10_000).map(float), min_size=1, max_size=6, unique=True))
    saved = draw(st.lists(numbers, min_size=len(sizes), max_size=len(sizes)))
    added = draw(st.lists(st.integers(0, 1000).map(float), min_size=len(sizes), max_size=len(sizes)))
    return sizes, saved, added


def test_token_reduction_pays_above_the_cost_of_500_launches() -> None:
    found = break_even([224, 448], [1000, 7000], launches_added=500, launch_us=8)
    assert found.cost_us == (4000, 4000)
    assert found.net_us == (-3000, 3000)
    assert found.size == 336  # halfway from 224 to 448
    assert str(found) == "pays above 336, interpolated between 224 and 448"


def test_launches_of_each_size_can_differ() -> None:
    found = break_even([1, 2, 3], [10, 20, 30], launches_added=[4, 10, 5], launch_us=2)
    assert found.net_us == (2, 0, 20)
    assert found.size == 2


def test_change_that_never_saves_enough_never_pays() -> None:
    found = break_even([224, 448], [100, 200], launches_added=500, launch_us=8)
    assert found.size is None
    assert str(found) == "never pays in the measured range (224 to 448)"


def test_change_paying_only_at_small_sizes_has_no_break_even() -> None:
    found = break_even([224, 448], [900, 100], launches_added=[100, 100], launch_us=8)
    assert found.size is None
    assert str(found) == "does not pay at 448, the largest measured"


def test_change_that_adds_nothing_and_saves_always_pays() -> None:
    found = break_even([224, 448], [100, 200], launches_added=0, launch_us=8)
    assert found.size == 224
    assert str(found) == "pays in all of the measured range (224 to 448)"


def test_break_even_follows_the_last_size_without_savings() -> None:
    # The change pays at 1 and 3, but not at 2.
    assert break_even([1, 2, 3], [5, -5, 15], 0, 0).size == 2.25


@given(changes(), st.floats(0, 100), st.floats(0, 100))
def test_expensive_launches_never_lower_the_break_even(
    change: tuple[list[float], list[float], list[float]], one: float, other: float
) -> None:
    cheap, dear = (break_even(*change, launch_us).size for launch_us in sorted((one, other)))
    if cheap is None:
        assert dear is None
    elif dear is not None:
        assert dear >= cheap * (1 - 1e-9)


@given(changes(), st.floats(0, 100))
def test_change_pays_at_every_size_above_the_break_even(
    change: tuple[list[float], list[float], list[float]], launch_us: float
) -> None:
    found = break_even(*change, launch_us)
    if found.size is None:
        assert found.net_us[-1] <= 0
    else:
        assert min(found.sizes) <= found.size <= max(found.sizes)
        assert all(net > 0 for size, net in zip(found.sizes, found.net_us, strict=True) if size > found.size)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (([], [], 1, 1), "there are 0 sizes"),
        (([1, 2], [1], 1, 1), "2 sizes, 1 times saved"),
        (([1, 2], [1, 2], [1], 1), "and 1 counts of launches"),
        (([1, 1], [1, 2], 1, 1), "the sizes 1, 1 are not all different"),
        (([1], [math.nan], 1, 1), "that is not finite"),
        (([1], [1], 1, -8), "a launch of -8 µs"),
    ],
)
def test_bad_numbers_are_refused(arguments: tuple[list[float], list[float], float, float], said: str) -> None:
    with pytest.raises(GpuperfError, match=said):
        break_even(*arguments)


def test_example_of_the_page_runs() -> None:
    page = Path(__file__).parents[3] / "docs/how-to/compare.md"
    _, example = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    exec(example, {})
