from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from checked_calls import checked, data
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.correctness.comparison import DEFAULT_TOLERANCES, Tolerance, compare
from pytest_gpuperf.records import Correctness


def allowed(actual: torch.Tensor, expected: torch.Tensor) -> bool:
    """Return the verdict of torch.testing.assert_close, which has the same rules."""
    try:
        torch.testing.assert_close(actual, expected)
    except AssertionError:
        return False
    return True


def test_equal_output_passes_and_is_recorded() -> None:
    result = checked(torch.square, data(3, 5), expected=lambda x: x * x)
    compared = replace(result, accuracy=None, argument_bytes=0, output_bytes=0, written_bytes=0)
    assert compared == Correctness(passed=True, rtol=1.3e-6, atol=1e-5, dtype="float32", elements=15)


def test_failure_shows_largest_differences_with_places() -> None:
    actual = torch.tensor([[1.0, 200.5], [3.0, 0.125]])
    expected = torch.tensor([[1.0, 200.0], [3.0, 0.1]])
    result = checked(lambda: actual, expected=expected)
    assert (result.max_abs_diff, result.max_abs_index) == (0.5, (0, 1))
    assert result.max_rel_index == (1, 1)
    assert result.max_rel_diff == pytest.approx(0.25, rel=1e-6)
    assert (result.mismatched, result.elements) == (2, 4)
    assert result.failure.splitlines() == [
        "output differs from the reference: 2 of 4 elements (50 %) beyond rtol=1.3e-06, atol=1e-05",
        "largest absolute difference 0.5 at [0, 1] (actual 200.5, expected 200)",
        "largest relative difference 0.25 at [1, 1] (actual 0.125, expected 0.1)",
    ]


@pytest.mark.parametrize(
    "dtype", [*DEFAULT_TOLERANCES, torch.int32, torch.bool, torch.float8_e4m3fn], ids=str
)
def test_default_tolerances_are_those_of_torch(dtype: torch.dtype) -> None:
    assert Tolerance().between(dtype, dtype) == torch.testing._comparison.default_tolerances(dtype)


@settings(max_examples=60, deadline=None)
@given(
    dtype=st.sampled_from([torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int32]),
    expected=st.lists(st.floats(-1e4, 1e4, width=16), min_size=1, max_size=4),
    nudge=st.floats(-2.0, 2.0),
)
def test_verdict_agrees_with_assert_close(dtype: torch.dtype, expected: list[float], nudge: float) -> None:
    right = torch.tensor(expected, dtype=torch.float64).to(dtype)
    rtol, atol = Tolerance().between(dtype, dtype)
    actual = (right.double() + nudge * (atol + rtol * right.double().abs())).to(dtype)
    limit = atol + rtol * right.double().abs()
    # torch rounds the limit to the type of the tensors, so the two may differ right next to it.
    assume(not (((actual.double() - right.double()).abs() - limit).abs() < 0.02 * limit).any())
    assert compare(actual, right, Tolerance()).passed == allowed(actual, right)


def test_given_tolerances_replace_the_defaults() -> None:
    def off(x: torch.Tensor) -> torch.Tensor:
        return x + 0.01

    assert not checked(off, data(4), expected=lambda x: x).passed
    assert checked(off, data(4), expected=lambda x: x, rtol=0.0, atol=0.02).passed


@pytest.mark.parametrize("given_tolerance", [{"rtol": 1e-3}, {"atol": 1e-3}])
def test_one_tolerance_without_the_other_is_refused(given_tolerance: dict[str, float]) -> None:
    with pytest.raises(GpuperfError, match="both or neither"):
        checked(torch.square, data(4), expected=torch.square, **given_tolerance)


def test_nan_fails_even_if_reference_has_it() -> None:
    x = torch.tensor([4.0, -1.0])
    result = checked(torch.sqrt, x, expected=torch.sqrt)
    assert not result.passed
    assert "1 of 2 elements is NaN, the first at [1]" in result.failure
    assert checked(torch.sqrt, x, expected=torch.sqrt, equal_nan=True).passed


def test_equal_nan_does_not_excuse_new_nan() -> None:
    result = checked(lambda: torch.tensor([float("nan")]), expected=torch.ones(1), equal_nan=True)
    assert not result.passed


def test_infinity_equals_only_the_same_infinity() -> None:
    inf = float("inf")
    expected = torch.tensor([inf, -inf, 1.0])
    assert checked(expected.clone, expected=expected).passed
    for wrong in ([inf, inf, 1.0], [inf, 3.0, 1.0], [inf, -inf, inf]):
        result = checked(torch.tensor(wrong).clone, expected=expected)
        assert (result.passed, result.mismatched) == (False, 1)
        assert result.max_abs_diff == 0.0, "a record has to be finite: JSON knows no infinity"


@pytest.mark.parametrize("wrong", [float("inf"), float("-inf")])
def test_single_infinity_shows_its_place(wrong: float) -> None:
    expected = torch.ones(2, 3)
    actual = expected.clone()
    actual[0, 0] += 1e-7
    actual[1, 2] = wrong
    lines = checked(actual.clone, expected=expected).failure.splitlines()
    assert lines[1] == (
        f"1 of 6 elements is off by an infinite amount, the first at [1, 2] (actual {wrong}, expected 1)"
    )


@pytest.mark.parametrize("equal_nan", [False, True])
def test_number_in_place_of_nan_shows_its_place(equal_nan: bool) -> None:
    expected = torch.tensor([0.0, float("nan")])
    failure = checked(lambda: torch.zeros(2), expected=expected, equal_nan=equal_nan).failure
    assert "the first at [1] (actual 0, expected nan)" in failure


def test_large_integers_are_compared_exactly() -> None:
    expected = torch.tensor([2**62])
    assert checked(expected.clone, expected=expected).passed
    assert checked((expected + 1).clone, expected=expected).max_abs_diff == 1.0


@pytest.mark.parametrize("shape", [(), (0,), (3, 0)], ids=str)
def test_scalars_and_empty_tensors_are_compared(shape: tuple[int, ...]) -> None:
    assert checked(torch.square, data(*shape), expected=lambda x: x * x).passed


def test_differences_are_found_in_every_piece_of_a_large_output(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_gpuperf.measure.correctness.comparison._CHUNK", 4)
    expected = data(3, 5)
    for at in range(expected.numel()):
        actual = expected.clone()
        actual.view(-1)[at] += 1.0
        result = compare(actual, expected, Tolerance())
        assert (result.max_abs_index, result.mismatched) == ((at // 5, at % 5), 1)


def test_wider_reference_uses_the_narrower_tolerance() -> None:
    result = checked(torch.square, data(9, dtype=torch.bfloat16), expected=lambda x: x.double() ** 2)
    assert (result.passed, result.dtype, result.rtol) == (True, "bfloat16", 1.6e-2)
    assert result.max_rel_diff > 0


@pytest.mark.parametrize(
    ("actual", "expected", "says"),
    [
        (torch.ones(3), torch.ones(1, 3), "output has shape [3], the reference [1, 3]"),
        (torch.ones(3).double(), torch.ones(3), "output is float64, the reference float32"),
        (torch.ones(3).half(), torch.ones(3).bfloat16(), "output is float16, the reference bfloat16"),
        (torch.ones(3).int(), torch.ones(3), "output is int32, the reference float32"),
        (torch.ones(3), torch.ones(3, device="meta"), "output is on cpu, the reference on meta"),
    ],
    ids=["shape", "narrower reference", "other float", "integer", "device"],
)
def test_tensors_of_another_shape_type_or_device_fail(
    actual: torch.Tensor, expected: torch.Tensor, says: str
) -> None:
    result = compare(actual, expected, Tolerance())
    assert not result.passed
    assert result.failure.startswith(says)


def test_comparison_imports_nothing_slow() -> None:
    """Compare in a new process: torch's own `unravel_index` alone imports a compiler, for seconds."""
    code = """
import sys, torch
from pytest_gpuperf.measure.correctness.comparison import Tolerance, compare
found = compare(torch.ones(4, 4), torch.eye(4), Tolerance(), "output", None)
assert (found.passed, found.max_abs_index) == (False, (0, 1))
slow = ("scipy", "pandas", "hypothesis", "sympy", "torch._dynamo", "triton")
assert [name for name in slow if name in sys.modules] == []
"""
    subprocess.run([sys.executable, "-c", code], check=True)
