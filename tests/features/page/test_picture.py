"""Tests of the model of pictures."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpuperf.features.page.picture import Axis, Line, Picture, four_digits, rounded


def test_json_leaves_defaults_out() -> None:
    picture = Picture(title="t", description="d", x=Axis(log=True), y=Axis(), marks=(Line(y=(1.0, 2.0)),))
    assert msgspec.json.decode(msgspec.json.encode(picture)) == {
        "title": "t",
        "description": "d",
        "x": {"log": True},
        "y": {},
        "marks": [{"mark": "line", "y": [1.0, 2.0]}],
    }


def test_numbers_of_a_log_axis_have_four_digits() -> None:
    assert four_digits([123456.0, 0.000123456]) == (123500.0, 0.0001235)


@given(st.lists(st.floats(1e-3, 1e9), min_size=2))
def test_rounding_stays_below_a_pixel(values: list[float]) -> None:
    pixel = (max(values) - min(values)) / 400 or max(values) / 1000
    assert all(abs(a - b) <= pixel for a, b in zip(rounded(values), values, strict=True))
