from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from pytest_gpuperf.measure.correctness import check

if TYPE_CHECKING:
    from pytest_gpuperf.records import Accuracy


def accuracy(fn: Any, *args: Any, expected: Any, **options: Any) -> Accuracy:
    found = check(fn, args, {}, expected=expected, **options).accuracy
    assert found is not None
    return found


def data(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


def test_reference_is_computed_in_float64() -> None:
    found = accuracy(torch.softmax, data(20, 30), -1, expected=torch.softmax)
    assert (found.reference, found.dtype, found.elements) == ("float64", "float32", 600)
    assert found.rms_ulp == found.reference_rms_ulp
    assert 0.3 < (found.max_ulp or 0) < 10
    assert (found.error_ratio, found.note) == (1.0, "")


def test_less_exact_function_has_a_larger_error_than_the_reference() -> None:
    def in_bfloat16(x: torch.Tensor) -> torch.Tensor:
        return x.bfloat16().exp().float()

    found = accuracy(in_bfloat16, data(100), expected=torch.exp, rtol=0.1, atol=0.1)
    assert (found.error_ratio or 0) > 1000


def test_reference_in_float64_is_taken_as_it_is() -> None:
    found = accuracy(torch.exp, data(100), expected=lambda x: x.double().exp(), rtol=1e-6, atol=0.0)
    assert (found.reference, found.reference_rms_ulp, found.error_ratio) == ("float64", None, None)
    assert set(found.values) == {"max_ulp", "rms_ulp", "same_bits"}


@pytest.mark.parametrize(
    ("expected", "note"),
    [
        (data(4, 4).exp(), "the reference is given as tensors"),
        (lambda x: (x @ torch.eye(4)).exp(), "the reference does not take float64 (RuntimeError"),
        (lambda x: x.float().exp(), "the reference returns float32 for float64"),
        (lambda x: x.exp() if x.dtype == torch.float32 else -x, "the reference returns other values"),
        (lambda x: x.exp() if x.dtype == torch.float32 else x[:2], "the reference returns another shape"),
        (lambda x: x.exp() if x.dtype == torch.float32 else (x, x), "the reference returns another number"),
    ],
)
def test_note_says_why_the_reference_is_not_in_float64(expected: Any, note: str) -> None:
    found = accuracy(torch.exp, data(4, 4), expected=expected)
    assert found.reference == "float32"
    assert found.note.startswith(note)
    assert found.error_ratio is None


def test_large_reference_on_a_slow_device_is_not_widened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_gpuperf.measure.correctness.accuracy.MOST_ELEMENTS", 100)
    found = accuracy(torch.exp, data(100), expected=torch.exp)
    assert found.note == "float64 is slow on a CPU, and there are 200 elements"


def test_slow_reference_is_not_called_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_gpuperf.measure.correctness.MOST_SECONDS", -1.0)
    found = accuracy(torch.exp, data(100), expected=torch.exp)
    assert found.note == "the reference takes 0.0 s, and in float64 longer"


def test_float64_has_no_wider_type() -> None:
    found = accuracy(torch.exp, data(9).double(), expected=torch.exp)
    assert (found.reference, found.rms_ulp) == ("float64", 0.0)
    assert found.note == "there is no wider type than float64"


def test_array_of_numpy_is_a_reference() -> None:
    found = accuracy(torch.exp, data(100), expected=lambda x: np.exp(x.numpy()))
    assert found.reference == "float64"
    assert found.error_ratio is not None


def test_module_is_widened_with_its_parameters() -> None:
    module = torch.nn.Linear(8, 8)
    found = accuracy(module, data(4, 8), expected=module)
    assert found.reference == "float64"
    assert module.weight.dtype == torch.float32


def test_arguments_that_the_reference_writes_are_widened() -> None:
    def twice(x: torch.Tensor, out: torch.Tensor) -> None:
        torch.mul(x, 1 / 3, out=out)

    x, out = data(100), torch.zeros(100)
    found = accuracy(twice, x, out, expected=twice, mutates=[1])
    assert (found.reference, found.output) == ("float64", "argument 1")
    assert 0 < (found.rms_ulp or 0) < 1
    assert not out.any()


def test_same_tensor_stays_the_same_in_float64() -> None:
    def gradient(x: torch.Tensor, options: dict[str, torch.Tensor]) -> torch.Tensor:
        assert options["x"] is x
        x.grad = None
        x.exp().sum().backward()  # type: ignore[no-untyped-call]
        assert x.grad is not None
        return x.grad

    x = data(10).requires_grad_()
    found = accuracy(gradient, x, {"x": x}, expected=gradient)
    assert (found.reference, found.error_ratio) == ("float64", 1.0)


def test_default_device_of_the_test_is_not_used() -> None:
    x = data(4)
    with torch.device("meta"):
        assert accuracy(torch.exp, x, expected=torch.exp).reference == "float64"


@pytest.mark.usefixtures("_seed_restored")
def test_random_numbers_of_the_test_stay_the_same() -> None:
    torch.manual_seed(0)
    accuracy(torch.exp, data(4), expected=lambda x: x.exp() + 0 * torch.rand(4), rtol=1e-3, atol=1e-3)
    first = torch.rand(4)
    torch.manual_seed(0)
    torch.rand(4)
    assert torch.equal(torch.rand(4), first)


def test_two_calls_with_other_bits_are_seen() -> None:
    calls = []

    def drifting(x: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        return x + 1e-6 * len(calls)

    assert not accuracy(drifting, data(4).abs() + 1, expected=torch.clone, rtol=1e-3, atol=0.0).same_bits
    assert accuracy(torch.exp, data(4), expected=torch.exp).same_bits


def test_integers_have_no_error_but_bits() -> None:
    found = accuracy(torch.argsort, data(4), expected=torch.argsort)
    assert found.values == {"same_bits": 1.0}
    assert found.note == "no output is of a floating type"


def test_worst_of_several_outputs_counts() -> None:
    def both(x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"good": x.clone(), "index": x.argsort(), "bad": x.bfloat16().float()}

    def expected(x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"good": x.clone(), "index": x.argsort(), "bad": x.clone()}

    found = accuracy(both, data(50), expected=expected, rtol=0.1, atol=0.1)
    assert found.output == "output['bad']"
    (good,) = found.others
    assert (good.output, good.rms_ulp, good.same_bits) == ("output['good']", 0, True)


def test_complex_numbers_are_two_real_ones() -> None:
    x = torch.complex(data(6, 7), data(6, 7))
    found = accuracy(torch.exp, x, expected=torch.exp)
    assert (found.reference, found.elements, len(found.max_ulp_index)) == ("complex128", 84, 3)


def test_wrong_output_has_no_accuracy() -> None:
    assert check(torch.exp, (data(4),), {}, expected=torch.sin).accuracy is None


def test_reference_of_integers_is_not_called_again() -> None:
    calls = []

    def halves(x: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        return x / 2

    found = accuracy(lambda x: x / 2, torch.arange(5), expected=halves)
    assert len(calls) == 1
    assert found.note == "no argument has a type that float64 is wider than"
