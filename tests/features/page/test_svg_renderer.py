"""Pictures as SVG."""

from __future__ import annotations

import math
import re
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpuperf.features.page.picture import Axis, Band, Mark, Picture, Points, Polyline
from pytest_gpuperf.features.page.svg_renderer import svg

SVG = "{http://www.w3.org/2000/svg}"


def drawn(
    *marks: Mark, x: Axis | None = None, y: Axis | None = None, notes: tuple[str, ...] = ()
) -> ET.Element:
    picture = Picture(
        title="Title", description="Words", x=x or Axis(), y=y or Axis(), marks=marks, notes=notes
    )
    return ET.fromstring(svg(picture))


def texts(element: ET.Element) -> list[str]:
    return [found.text or "" for found in element.iter(f"{SVG}text")]


def test_picture_has_title_legend_axes_and_notes() -> None:
    line = Polyline(x=(1.0, 2.0), y=(10.0, 20.0), name="triton")
    found = drawn(line, x=Axis(label="N"), y=Axis(label="GB/s", low=0.0), notes=("a note",))
    assert {"Title", "triton", "N", "GB/s", "0", "20", "a note"} <= set(texts(found))
    assert found.get("aria-label") == "Title. Words"


@pytest.mark.parametrize(
    ("values", "ticks"),
    [((1.0, 1e4), ["1", "10", "100", "1000", "10000"]), ((20.0, 200.0), ["20", "50", "100", "200"])],
)
def test_logarithmic_axis_has_round_ticks(values: tuple[float, ...], ticks: list[str]) -> None:
    found = texts(drawn(Polyline(x=values, y=(0.3, 0.4)), x=Axis(log=True)))
    assert [text for text in found if text in ticks] == ticks


def test_points_link_only_to_web_sites() -> None:
    links = ("https://example.org/1", "javascript:alert(1)", "")
    found = drawn(Points(x=(1.0, 2.0, 3.0), y=(1.0, 1.0, 1.0), links=links, tips=("a", "b", "c")))
    assert [one.attrib for one in found.iter(f"{SVG}a")] == [
        {"href": "https://example.org/1", "rel": "noreferrer", "aria-label": "a"}
    ]
    assert found.get("role") == "group"


def test_name_beside_a_line_is_in_no_legend() -> None:
    found = drawn(Polyline(x=(0.0, 1.0), y=(1.0, 1.0), name="peak", beside=True))
    assert texts(found).count("peak") == 1


NUMBERS = st.floats(-1e30, 1e30) | st.just(0.0)


@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=9), st.text(max_size=20), st.booleans())
def test_numbers_and_names_make_finite_svg(values: list[tuple[float, float]], name: str, log: bool) -> None:
    x, y = zip(*values, strict=True)
    marks = (
        Polyline(x=x, y=y, name=name, dots=True),
        Points(x=x, y=y, low=y, high=y, name=name),
        Band(low=min(y), high=max(y), name=name),
    )
    found = drawn(*marks, x=Axis(log=log), y=Axis(label=name))
    numbers = [
        value for one in found.iter() for key, value in one.items() if key in ("d", "x", "y", "transform")
    ]
    assert not re.search(r"nan|inf", " ".join(numbers))
    assert all(math.isfinite(float(value)) for value in re.findall(r"-?\d+\.?\d*", " ".join(numbers)))
