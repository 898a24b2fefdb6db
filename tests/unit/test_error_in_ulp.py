from __future__ import annotations

import math
from dataclasses import astuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from present import present
from pytest_gpuperf.measure.correctness import accuracy
from pytest_gpuperf.measure.correctness.accuracy import Error, error_of, ulp

NARROW = [torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2]


def rounded(values: torch.Tensor, bits: int) -> torch.Tensor:
    """Round float32 values to so many significant bits, as tensor cores do with their inputs."""
    dropped = 24 - bits
    words = values.view(torch.int32) + (1 << (dropped - 1))
    return (words >> dropped << dropped).view(torch.float32)


def known_error(actual: torch.Tensor, reference: torch.Tensor, dtype: torch.dtype = torch.float32) -> Error:
    return present(error_of(actual, reference, dtype))


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_ulp_of_float64_is_that_of_the_standard_library(value: float) -> None:
    least = torch.finfo(torch.float64).smallest_normal
    expected = math.ulp(max(abs(value), least))
    assert ulp(torch.tensor([value], dtype=torch.float64), torch.float64).item() == expected


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_ulp_is_the_step_to_the_next_number(dtype: torch.dtype) -> None:
    info = torch.finfo(dtype)
    ones = ulp(torch.tensor([1.0, 1.99, -2.0, info.tiny / 2, 0.0], dtype=torch.float64), dtype)
    step = info.eps
    assert ones.tolist() == [step, step, 2 * step, info.tiny * step, info.tiny * step]


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_correct_rounding_is_at_most_half_an_ulp_off(dtype: torch.dtype) -> None:
    exact = torch.randn(5000, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    assert 0.4 < known_error(exact.to(dtype), exact, dtype).max_ulp <= 0.5


def test_largest_error_has_its_index() -> None:
    exact = torch.ones(1000, dtype=torch.float64)
    actual = exact.clone()
    actual[777] += 8 * 2**-23
    found = known_error(actual.float(), exact)
    assert (found.max_ulp, found.max_at) == (8.0, 777)


def test_pieces_give_the_same_error_as_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = torch.randn(1000, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    actual = exact.bfloat16()
    whole = known_error(actual, exact, torch.bfloat16)
    monkeypatch.setattr(accuracy, "PIECE", 300)
    pieces = known_error(actual, exact, torch.bfloat16)
    assert astuple(pieces) == pytest.approx(astuple(whole))


def test_sample_of_a_large_output_reaches_both_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accuracy, "PIECE", 64)
    monkeypatch.setattr(accuracy, "SAMPLE", 8)
    exact = torch.ones(5000, dtype=torch.float64)
    first, last = exact.clone(), exact.clone()
    first[0], last[4968:] = 2.0, 3.0
    for actual, at in ((first, 0), (last, 4968)):
        found = known_error(actual, exact, torch.float64)
        assert found.elements == 256
        assert found.max_at >= at
        assert actual[found.max_at] > 1


def test_nan_is_left_out_and_infinity_is_the_largest_number() -> None:
    exact = torch.tensor([math.nan, 1e300, 1.0], dtype=torch.float64)
    assert known_error(torch.tensor([1.0, math.inf, 1.0]), exact).rms_ulp == 0
    assert error_of(torch.tensor([math.nan]), torch.ones(1), torch.float32) is None


def test_empty_output_has_no_error() -> None:
    assert error_of(torch.empty(0), torch.empty(0), torch.float32) is None


def test_error_where_nothing_is_expected_is_finite() -> None:
    assert known_error(torch.ones(3), torch.zeros(3, dtype=torch.float64)).rms_ulp == accuracy.LARGEST


@pytest.mark.parametrize(("bits", "low", "high"), [(11, 1000, 10_000), (8, 10_000, 100_000)])
def test_product_of_rounded_factors_is_thousands_of_ulp_off(bits: int, low: float, high: float) -> None:
    generator = torch.Generator().manual_seed(3)
    a, b = (torch.randn(128, 128, generator=generator) for _ in range(2))
    exact = a.double() @ b.double()
    assert known_error(a @ b, exact).rms_ulp < 5
    found = known_error(rounded(a, bits) @ rounded(b, bits), exact)
    assert low < found.rms_ulp < high
    assert bits <= found.bits < bits + 1.6
