"""Sums of shapes with vectors."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_gpuperf.features.history.level_shapes import Ramp, Shapes

COUNT = 12
RAMPS = st.lists(
    st.tuples(st.integers(0, COUNT - 2), st.integers(1, COUNT)).map(
        lambda of: Ramp(of[0], min(of[0] + of[1], COUNT - 1))
    ),
    min_size=1,
)


@settings(max_examples=50)
@given(RAMPS, st.lists(st.floats(-9, 9), min_size=COUNT, max_size=COUNT))
def test_sums_are_the_products_with_the_columns(ramps: list[Ramp], values: list[float]) -> None:
    shapes, vector = Shapes.of(COUNT, ramps), np.array(values)
    assert shapes.dot(vector[:, None])[0] == pytest.approx(vector @ shapes.columns())
    assert shapes.dot_squares(vector) == pytest.approx(vector @ shapes.columns() ** 2)


def test_step_that_is_taken_back_ends_before_its_last_index() -> None:
    pair = Shapes(6, np.array([1]), np.array([2]), np.array([4]))
    assert pair.columns()[:, 0].tolist() == [0, 0, 1, 1, 0, 0]
    assert pair.dot(np.arange(6.0)[:, None]).item() == pair.dot_squares(np.arange(6.0)).item() == 5
    assert pair.ramps(0) == [Ramp(1, 2), Ramp(3, 4)]
