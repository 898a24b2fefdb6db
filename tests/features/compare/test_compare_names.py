"""Names of measurements: their parts, numbers and pairs."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from present import present
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.features.compare.axis import find_axis
from pytest_gpuperf.features.compare.measurement_names import (
    Name,
    name_of,
    number_of,
    pair_names,
    short,
    varying,
)

words = st.from_regex(r"[A-Za-z0-9_.]{0,3}[A-DF-Za-df-z_]", fullmatch=True)  # not the `1e` of `1e-5`


def names(*tests: str) -> list[Name]:
    return [name_of(f"t/test_a.py::{test}", "main") for test in tests]


@given(st.lists(st.one_of(words, st.integers(0, 9999).map(str)), min_size=1, max_size=4))
def test_minus_separates_parameters(parameters: list[str]) -> None:
    name = name_of(f"t/test_a.py::TestA::test_k[{'-'.join(parameters)}]", "cold")
    assert name.function == "t/test_a.py::TestA::test_k"
    assert name.parameters == tuple(parameters)
    assert type(name).of_parts(name.parts) == name


@pytest.mark.parametrize(
    ("ids", "parameters"),
    [
        ("1e-05-fp16", ("1e-05", "fp16")),
        ("-1-a", ("-1", "a")),
        ("4--1", ("4", "-1")),
        ("a::b-[1]", ("a::b", "[1]")),
    ],
)
def test_minus_sign_of_a_number_does_not_separate(ids: str, parameters: tuple[str, ...]) -> None:
    assert name_of(f"t.py::test_k[{ids}]", "main").parameters == parameters


@pytest.mark.parametrize(
    ("parameter", "number"),
    [
        ("4096", ("", 4096)),
        ("N4096", ("N", 4096)),
        ("n=4096", ("n", 4096)),
        ("batch_8", ("batch", 8)),
        ("0.5", ("", 0.5)),
        ("1823x781", ("", 1823 * 781)),
        ("(1823, 781)", ("", 1823 * 781)),
        ("128x256x64", ("", 128 * 256 * 64)),
        ("topk", None),
        ("int4096", ("int", 4096)),
        ("fp12", ("fp", 12)),
        *(
            (name, None)
            for name in ("fp16", "FP32", "bf16", "f16", "float64", "tf32", "int8", "uint4", "mxfp4")
        ),
        ("sm_90a", None),
        ("", None),
    ],
)
def test_numbers_with_and_without_names_and_shapes(parameter: str, number: object) -> None:
    assert number_of(parameter) == number


@given(st.text("0123456789eENx=_.-(), ", max_size=12))
def test_number_is_finite(text: str) -> None:
    found = number_of(text)
    assert found is None or math.isfinite(found[1])


def test_overflowing_number_is_not_a_number() -> None:
    assert number_of("1e999") is None
    assert number_of("x".join(["9" * 200] * 2)) is None


def test_parameter_that_groups_do_not_share_is_compared() -> None:
    found = present(pair_names([names("test_k[224-full]", "test_k[448-full]"), names("test_k[448-less]")]))
    assert found.place == 3
    assert {0: 1, 1: 0} in found.rows


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (["test_a[1]", "test_b[1]"], ["test_c[1]"]),  # ambiguous
        (["test_a[1-x]"], ["test_b[1-y]"]),  # two parts differ
        (["test_a[1]"], ["test_b"]),
        (["test_a[1]", "test_a[2]"], ["test_b[3]"]),
    ],
)
def test_ambiguous_names_are_not_paired(one: list[str], other: list[str]) -> None:
    assert pair_names([names(*one), names(*other)]) is None


def test_short_name_shows_varying_parts() -> None:
    both = [name_of("t.py::test_k[224-a]", "main"), name_of("t.py::test_k[448-a]", "cold")]
    assert [short(name, varying(both)) for name in both] == ["224", "448 (cold)"]


def test_only_varying_number_is_the_axis() -> None:
    found = find_axis(names("test_a[4096-fp16-1]", "test_a[8192-bf16-1]"), None)
    assert found.of(name_of("t.py::t[16-x]", "main")) == (2, 16)


def test_named_axis_may_have_any_place() -> None:
    both = names("test_a[N1024-M4]", "test_a[N2048-M8]", "test_b[M4-N1024]")
    assert [find_axis(both, "n").of(name) for name in both] == [(2, 1024), (2, 2048), (3, 1024)]


def test_unknown_name_is_the_title_of_the_only_axis() -> None:
    assert find_axis(names("test_a[1024]", "test_a[2048]"), "N").title == "N"


def test_names_of_types_are_not_an_axis() -> None:
    both = names("test_a[N1024-fp16]", "test_a[N2048-fp32]", "test_a[N1024-int8]", "test_a[N1024-int4]")
    assert find_axis(both).title == "N"


def test_several_axes_need_a_choice() -> None:
    both = names("test_a[224-1]", "test_a[448-8]")
    with pytest.raises(GpuperfError, match=r"choose one: --x 1 \(224, 448\), --x 2 \(1, 8\)"):
        find_axis(both)
    assert find_axis(both, "2").of(name_of("t.py::t[224-8]", "main")) == (3, 8)
    with pytest.raises(GpuperfError, match="no test here has a number as its parameter 3"):
        find_axis(both, "3")


def test_words_are_not_an_axis() -> None:
    with pytest.raises(GpuperfError, match="no parameter of these tests is a number that differs"):
        find_axis(names("test_a[hot]", "test_a[cold]", "test_b[4]"))
