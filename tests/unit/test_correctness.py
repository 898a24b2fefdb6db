from __future__ import annotations

import re
import weakref
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch.nn.functional import embedding

from checked_calls import checked, data
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.correctness import check
from pytest_gpuperf.measure.correctness.comparison import ReferenceWithCheck
from pytest_gpuperf.measure.device.memory import poisoned_memory

if TYPE_CHECKING:
    from collections.abc import Callable


FLOATS = [
    torch.float64,
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.float8_e4m3fn,
    torch.complex64,
    torch.complex128,
]
INTEGERS = [torch.int64, torch.int32, torch.int8, torch.uint8, torch.bool]


# --- outputs ---


@pytest.mark.parametrize("name", ["float4_e2m1fn_x2", "uint4", "int2", "bits8", "bits16"])
def test_packed_outputs_are_compared_by_their_bits(name: str) -> None:
    dtype: torch.dtype = getattr(torch, name)

    def packed(x: torch.Tensor) -> torch.Tensor:
        return x.view(dtype)

    x = torch.arange(32, dtype=torch.uint8)
    assert checked(packed, x, expected=packed).passed
    result = checked(packed, x, expected=lambda x: torch.where(x == 7, 8, x).view(dtype))
    assert "differs from the reference: 1 of" in result.failure


def either_sign(args: tuple[Any, ...], output: Any) -> str:
    return "" if torch.equal(output.flatten().abs(), 2 * args[0].abs()) else "neither sign"


TWICE = ReferenceWithCheck(lambda x: 2 * x, either_sign)


@pytest.mark.parametrize("fn", [lambda x: -2 * x, lambda x: x.mul(-2).view(2, 2)])
def test_own_check_of_a_reference_accepts_what_differs_from_it(fn: Any) -> None:
    result = checked(fn, data(4), expected=TWICE)
    assert (result.passed, result.failure) == (True, "")
    assert (result.accuracy is None) == (result.max_abs_diff == 0)


def test_own_check_of_a_reference_refuses_what_is_close_to_it() -> None:
    result = checked(lambda x: 2 * x + 1e-6, data(4), expected=TWICE, rtol=1.0, atol=1.0)
    assert (result.passed, result.failure) == (False, "neither sign")
    assert result.max_abs_diff > 0


def test_own_check_of_a_reference_may_take_another_number_of_outputs() -> None:
    judged = ReferenceWithCheck(lambda x: x, lambda args, output: "" if len(output) == 2 else "no pair")
    assert checked(lambda x: (x + 1, x - 1), data(4), expected=judged).passed
    assert checked(lambda x: [x + 1], data(4), expected=judged).failure == "no pair"


def test_nested_outputs_are_paired_by_name() -> None:
    def attention(x: torch.Tensor) -> object:
        return {"out": x + 1, "lse": (x * 2, None)}

    assert checked(attention, data(4), expected=lambda x: {"lse": [x * 2], "out": x + 1}).passed
    result = checked(attention, data(4), expected=lambda x: {"lse": [x * 3], "out": x + 1})
    assert result.failure.startswith("output['lse'][0] differs from the reference: 4 of 4")
    assert result.elements == 8


def test_list_of_tensors_is_a_reference() -> None:
    assert checked(torch.frexp, data(4), expected=list(torch.frexp(data(4)))).passed


def test_different_number_of_outputs_fails() -> None:
    result = checked(lambda x: (x, x), data(4), expected=lambda x: x)
    assert result.failure == "the function returned output[0], output[1]; the reference returned output"


@pytest.mark.parametrize("value", [None, 3.0, ()])
def test_output_without_tensors_is_refused(value: object) -> None:
    with pytest.raises(GpuperfError, match="the function returned"):
        checked(lambda x: value, data(4), expected=torch.square)


# --- memory that was not written ---


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS], ids=str)
def test_element_that_is_never_written_fails(dtype: torch.dtype) -> None:
    def almost(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        out[:, :-1] = x[:, :-1]
        return out

    result = checked(almost, data(8, 100, dtype=dtype), expected=lambda x: x.clone())
    assert not result.passed
    assert "8 of 800 elements are never written, the first at [0, 99]" in result.failure
    assert "NaN" not in result.failure


@pytest.mark.parametrize(
    ("written", "failure"),
    [(4, ""), (3, "100 of 400 elements are never written"), (5, "has shape [8, 100], the reference [4")],
    ids=["valid part", "less", "more"],
)
def test_reference_may_return_only_the_valid_part(written: int, failure: str) -> None:
    def padded(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty(8, 100)
        out[:written] = 2 * x[:written]
        return out

    result = checked(padded, data(8, 100), expected=lambda x: 2 * x[:4])
    assert result.passed is (not failure)
    assert failure in result.failure


@pytest.mark.parametrize(
    "allocate",
    [
        lambda x: torch.empty(x.shape),
        lambda x: torch.empty_strided(x.shape, x.stride()),
        lambda x: torch.empty_permuted(x.shape, (1, 0)),
        lambda x: x.new_empty(x.shape),
        lambda x: x.new_empty_strided(x.shape, x.stride()),
        lambda x: torch.Tensor(*x.shape),
    ],
    ids=["empty", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided", "Tensor"],
)
def test_memory_of_every_allocator_call_is_poisoned(allocate: Callable[[torch.Tensor], torch.Tensor]) -> None:
    result = checked(allocate, data(8, 8), expected=torch.square)
    assert "64 of 64 elements are never written" in result.failure


def test_unwritten_memory_that_swallows_nan_is_caught() -> None:
    def maximum(x: torch.Tensor) -> torch.Tensor:
        running = torch.empty(())  # should start at -inf
        return torch.fmax(running, x.max())

    assert not checked(maximum, data(100), expected=torch.max).passed


def test_nan_that_was_computed_is_not_called_unwritten() -> None:
    result = checked(lambda x: torch.log(-x.abs()), data(4), expected=torch.square)
    assert "4 of 4 elements are NaN" in result.failure
    assert "never written" not in result.failure


# --- arguments ---


def test_changed_input_fails_and_is_restored() -> None:
    def scale(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        y[1, 2] = 7.0
        return x * 2

    x, y = data(3, 4), torch.zeros(3, 4)
    result = checked(scale, x, y, expected=lambda x, y: x * 2)
    assert result.failure == (
        "argument 1 was changed: 1 of 12 elements, the first at [1, 2] (before 0.0, after 7.0); "
        "if the function is meant to write to it, name it in mutates="
    )
    assert torch.equal(y, torch.zeros(3, 4))


def test_nan_to_nan_is_not_a_change() -> None:
    def rewrite(x: torch.Tensor) -> torch.Tensor:
        x.copy_(x.clone())
        return x + 1

    x = torch.tensor([float("nan"), 1.0])
    assert checked(rewrite, x, expected=lambda x: x + 1, equal_nan=True).passed


def test_changed_keyword_argument_is_named() -> None:
    def scale(x: torch.Tensor, *, table: dict[str, torch.Tensor]) -> torch.Tensor:
        table["cos"].add_(1)
        return x * 2

    result = check(scale, (data(3),), {"table": {"cos": torch.ones(2)}}, expected=lambda x, table: x * 2)
    assert result.failure.startswith("argument table['cos'] was changed: 2 of 2 elements")


def test_write_outside_a_view_is_caught() -> None:
    buffer = torch.zeros(10)

    def overrun(x: torch.Tensor) -> torch.Tensor:
        buffer[5] = 1.0
        return x + 1

    result = checked(overrun, buffer[:5], expected=lambda x: x + 1)
    assert result.failure == "memory outside of argument 0, but in the same allocation, was changed"


def test_function_sees_strides_of_the_real_call() -> None:
    seen = []

    def square(x: torch.Tensor) -> torch.Tensor:
        seen.append((x.stride(), x.storage_offset()))
        return x * x

    assert checked(square, data(8, 6)[1:, ::2], expected=torch.square).passed
    assert set(seen) == {((6, 2), 6)}


def test_expanded_argument_is_restored() -> None:
    x = data(4, 1).expand(4, 3)
    assert checked(lambda x: x + 1, x, expected=lambda x: x + 1).passed


def test_in_place_function_accepts_both_kinds_of_reference() -> None:
    def double_(x: torch.Tensor) -> None:
        x.mul_(2)

    x = data(5)
    for reference in (double_, lambda x: x * 2, data(5) * 2):
        assert checked(double_, x, expected=reference, mutates=(0,)).passed
        assert torch.equal(x, data(5))
    result = checked(double_, x, expected=lambda x: x * 3, mutates=(0,))
    assert result.failure.startswith("argument 0 differs from the reference: 5 of 5")


def test_function_that_returns_the_argument_it_wrote_is_checked() -> None:
    assert checked(lambda x: x.mul_(2), data(5), expected=lambda x: x * 2, mutates=True).passed


def test_output_argument_that_is_not_written_in_full_fails() -> None:
    def square_into(out: torch.Tensor, x: torch.Tensor) -> None:
        out[:-1] = x[:-1] ** 2

    already_right = data(5) ** 2
    result = checked(square_into, already_right, data(5), expected=lambda out, x: x**2, mutates=(0,))
    assert result.failure == (
        "argument 0 differs from the reference: 1 of 5 elements is never written, the first at [4]"
    )


def test_output_argument_named_by_keyword_is_checked() -> None:
    def square(x: torch.Tensor, *, out: torch.Tensor) -> None:
        torch.mul(x, x, out=out)

    arguments = {"out": torch.empty(5)}
    assert check(square, (data(5),), arguments, expected=lambda x, out: x**2, mutates=("out",)).passed


def test_argument_unwritten_by_reference_may_stay_unwritten() -> None:
    def update(cache: torch.Tensor, row: torch.Tensor) -> None:
        cache[2] = row

    assert checked(update, data(4, 3), torch.ones(3), expected=update, mutates=(0,)).passed


def test_accumulation_into_an_argument_is_not_called_unwritten() -> None:
    def accumulate(total: torch.Tensor, x: torch.Tensor) -> None:
        total.add_(x)

    for reference in (accumulate, lambda total, x: total + x, lambda total, x: total.double() + x):
        assert checked(accumulate, data(6), torch.ones(6), expected=reference, mutates=(0,)).passed


def backward(x: torch.Tensor) -> torch.Tensor:
    (x * x).sum().backward()  # type: ignore[no-untyped-call]
    assert x.grad is not None
    return x.grad


def test_gradients_do_not_add_up_over_calls() -> None:
    x = data(4).requires_grad_()
    assert checked(backward, x, expected=2 * data(4)).passed
    assert x.grad is None


def looked_up(x: torch.Tensor) -> torch.Tensor:
    embedding(torch.tensor([1, 1]), x, sparse=True).sum().backward()  # type: ignore[no-untyped-call]
    assert x.grad is not None
    return x.grad.to_dense()


@pytest.mark.parametrize("fn", [backward, looked_up])
def test_former_gradient_is_seen_by_each_call(fn: Callable[[torch.Tensor], torch.Tensor]) -> None:
    x = data(2, 3).requires_grad_()
    one, before = fn(x).clone(), x.grad
    assert before is not None
    assert checked(fn, x, expected=2 * one).passed
    assert x.grad is before
    assert torch.equal(before.to_dense(), one)


SPARSE: dict[str, Any] = {"coo": torch.Tensor.to_sparse, "csr": torch.Tensor.to_sparse_csr}


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")
@pytest.mark.parametrize("layout", SPARSE)
def test_sparse_argument_is_handed_on(layout: str) -> None:
    args = SPARSE[layout](torch.eye(3)), data(3, 3)
    assert checked(torch.matmul, *args, expected=lambda _, y: y.double()).passed
    assert not checked(torch.matmul, *args, expected=lambda _, y: 2 * y).passed


def jagged(x: torch.Tensor) -> torch.Tensor:
    return torch.nested.nested_tensor([x[:1], x[1:]], layout=torch.jagged)


def nested(x: torch.Tensor) -> torch.Tensor:
    return torch.nested.nested_tensor([x[:1], x[1:]])


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support", "ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("wrap", [*SPARSE.values(), jagged, nested])
def test_output_is_compared_by_its_parts(wrap: Callable[[torch.Tensor], torch.Tensor]) -> None:
    assert checked(wrap, torch.eye(3), expected=lambda x: wrap(x * x)).passed
    wrong = checked(wrap, torch.eye(3), expected=lambda x: wrap(2 * x))
    assert re.match(r"output\.(values\(\)|unbind\(\)\[0\]) differs", wrong.failure)
    assert not checked(wrap, torch.eye(3), expected=lambda x: x).passed


@pytest.mark.filterwarnings("ignore:torch.quantize", "ignore:Sparse invariant checks")
@pytest.mark.parametrize(
    ("wrap", "why"),
    [
        (lambda x: torch.quantize_per_tensor(x, 0.1, 0, torch.qint8), r"quantised: .*\.dequantize\(\)"),
        (lambda x: torch.sparse_coo_tensor(torch.zeros(1, 2), x[:2], (3,)), r".*sparse_coo: .*\.coalesce"),
        (torch.Tensor.to_mkldnn, r"torch._mkldnn: .*\.to_dense\(\)"),
    ],
)
def test_output_without_comparable_parts_is_refused(wrap: Any, why: str) -> None:
    with pytest.raises(GpuperfError, match=f"output is {why}"):
        checked(wrap, data(4), expected=wrap)


class LiveCopies:
    """Counts the largest number of output copies alive at once."""

    def __init__(self) -> None:
        self.most = 0
        self._made: list[weakref.ref[torch.Tensor]] = []

    def __call__(self, tensor: torch.Tensor) -> torch.Tensor:
        made = tensor.detach().clone()
        self._made.append(weakref.ref(made))
        self.most = max(self.most, sum(reference() is not None for reference in self._made))
        return made


def test_no_more_than_three_copies_of_an_output_are_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    def square_into(out: torch.Tensor, x: torch.Tensor) -> None:
        torch.mul(x, x, out=out)

    copies = LiveCopies()
    monkeypatch.setattr("pytest_gpuperf.measure.correctness.call_tensors.copy", copies)
    assert checked(square_into, torch.empty(5), data(5), expected=square_into, mutates=(0,)).passed
    assert copies.most == 3


def test_allocator_without_free_blocks_leaves_memory_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses() -> None:
        raise RuntimeError("cudaMallocAsync does not yet support snapshot")

    monkeypatch.setattr(torch.cuda, "get_allocator_backend", lambda: "cudaMallocAsync")
    monkeypatch.setattr(torch.cuda, "memory_snapshot", refuses)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: SimpleNamespace(cuda_stream=0))
    with poisoned_memory(0xFF, [torch.device("cuda", 0)]):
        pass


@pytest.mark.parametrize("position", [1, 2, -1, "out"])
def test_mutates_that_names_no_tensor_is_refused(position: int | str) -> None:
    with pytest.raises(GpuperfError, match="which is not a tensor of this call"):
        checked(lambda x, n: x, data(3), 4, expected=lambda x, n: x, mutates=(position,))


def with_tf32(x: torch.Tensor) -> torch.Tensor:
    torch.backends.cuda.matmul.allow_tf32 = True
    return x * x


def test_changed_setting_is_refused_before_the_reference_runs() -> None:
    calls: list[int] = []

    def expected(x: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        return x * x

    with pytest.raises(
        GpuperfError, match=r"the callable has changed torch\.backends\.cuda\.matmul\.allow_tf32"
    ):
        checked(with_tf32, data(4), expected=expected)
    assert not calls
    assert not torch.backends.cuda.matmul.allow_tf32


def test_argument_and_setting_are_put_back_if_the_function_raises() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        with_tf32(x.zero_())
        raise ValueError("a bad shape")

    x = data(4)
    with pytest.raises(ValueError, match="a bad shape"):
        checked(fn, x, expected=torch.square)
    assert torch.equal(x, data(4))
    assert not torch.backends.cuda.matmul.allow_tf32


def test_reference_may_change_a_setting() -> None:
    try:
        assert checked(torch.square, data(4), expected=with_tf32).passed
    finally:
        torch.set_float32_matmul_precision("highest")
