"""Red zones and shapes on a real GPU: planted bugs are found, and torch's operators are never accused."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch.nn import functional

from pytest_gpuperf.features.fuzz.fuzz import fuzz
from pytest_gpuperf.measure.correctness import check
from pytest_gpuperf.records.call import LAYOUTS, FuzzCall, Reference

if torch.cuda.is_available():
    from benchmarks.planted_bugs import PLANTED, one_past_the_end

if TYPE_CHECKING:
    from collections.abc import Callable

BUGS = {bug.fn.__name__: bug for bug in PLANTED} if torch.cuda.is_available() else {}
HIDDEN = {
    "past_the_block": (2048,),
    "one_past_the_end": (2048,),
    "into_the_argument": (2048,),
    "tail_columns": (3, 256),
    "past_the_row": (3, 128),
    "unmasked_read": (3, 256),
    "ignores_strides": (3, 100),
}
SHOWN = {
    "past_the_block": ((1000,), "96 bytes changed, the nearest 1 element past the end of output"),
    "one_past_the_end": ((1000,), "4 bytes changed, the nearest 1 element past the end of output"),
    "one_before_the_start": ((1024,), "4 bytes changed, the nearest 1 element before output"),
    "into_the_argument": ((1000,), "the nearest 1 element past the end of argument 0"),
    "tail_columns": ((3, 200), "differs from the reference"),
    "past_the_row": ((3, 100), "112 bytes changed, the nearest 1 element past the end of output"),
    "unmasked_read": ((1, 200), "reads out of bounds: 1 of 1 elements of output are NaN"),
}


def _checked(name: str, shape: tuple[int, ...]) -> str:
    bug = BUGS[name]
    x = torch.randn(shape, device="cuda")
    return check(bug.fn, (x,), {}, expected=bug.expected, rtol=1e-4, atol=1e-4, **bug.options).failure


@pytest.mark.parametrize("name", HIDDEN)
def test_bug_passes_at_the_size_that_hides_it(name: str) -> None:
    assert _checked(name, HIDDEN[name]) == ""


@pytest.mark.parametrize("name", SHOWN)
def test_bug_is_named_at_the_size_that_shows_it(name: str) -> None:
    shape, message = SHOWN[name]
    assert message in _checked(name, shape)


@pytest.mark.parametrize("name", ["past_the_block", "tail_columns", "past_the_row", "one_past_the_end"])
def test_bug_is_found_in_fifty_shapes(name: str) -> None:
    bug = BUGS[name]
    call = FuzzCall(
        "test",
        f"{time.time_ns()}",
        bug.fn,
        reference=Reference(bug.expected, rtol=1e-4, atol=1e-4),
        shapes=bug.shapes,
        sizes={},
        dtypes=bug.dtype,
        layouts=LAYOUTS,
        make=None,
        refuses=(),
        seconds=1.0,
    )
    assert 1 <= fuzz(call, torch.device("cuda"), lambda _: None).found_after <= 50


@pytest.mark.parametrize("elements", [1, 127, 128, 1023, 1152, 300_160, 3_000_064, 40_000_128])
def test_write_of_one_element_shows_at_every_size(elements: int) -> None:
    result = check(one_past_the_end, (torch.randn(elements, device="cuda"),), {}, expected=lambda x: x * 2)
    assert result.failure.endswith("4 bytes changed, the nearest 1 element past the end of output")


def _vector(*shape: int) -> Callable[[torch.dtype], torch.Tensor]:
    return lambda dtype: torch.randn(shape, device="cuda").to(dtype)


def _places(rows: int, of: int) -> Callable[[torch.dtype], torch.Tensor]:
    return lambda _: torch.randint(of, (rows,), device="cuda")


X, W, V = _vector(37, 101), _vector(101, 65), _vector(101)
IMAGE, KERNEL, HEADS = _vector(2, 3, 17, 19), _vector(5, 3, 3, 3), _vector(2, 3, 33, 64)
OPERATORS: dict[str, tuple[Any, ...]] = {
    "add": (torch.add, X, X),
    "exp": (torch.exp, X),
    "relu": (torch.relu, X),
    "gelu": (functional.gelu, X),
    "silu": (functional.silu, X),
    "where": (lambda x: torch.where(x > 0, x, -x), X),
    "clamp": (lambda x: x.clamp(-1, 1), X),
    "cat": (lambda x, y: torch.cat((x, y)), X, X),
    "transpose": (lambda x: x.mT.contiguous(), X),
    "sum": (torch.sum, X),
    "row sums": (lambda x: x.sum(1), X),
    "column means": (lambda x: x.mean(0), X),
    "max": (lambda x: x.max(1).values, X),
    "argmax": (lambda x: x.argmax(1), X),
    "cumsum": (lambda x: x.cumsum(1), X),
    "sort": (lambda x: x.sort(1).values, X),
    "topk": (lambda x: x.topk(7).values, X),
    "softmax": (lambda x: x.softmax(1), X),
    "log_softmax": (lambda x: x.log_softmax(1), X),
    "layer_norm": (lambda x, w: functional.layer_norm(x, (101,), w), X, V),
    "rms_norm": (lambda x, w: functional.rms_norm(x, (101,), w), X, V),
    "mm": (torch.mm, X, W),
    "mv": (torch.mv, X, V),
    "linear": (functional.linear, X, X),
    "bmm": (torch.bmm, _vector(3, 17, 33), _vector(3, 33, 9)),
    "conv2d": (functional.conv2d, IMAGE, KERNEL),
    "max_pool2d": (lambda x: functional.max_pool2d(x, 2), IMAGE),
    "attention": (functional.scaled_dot_product_attention, HEADS, HEADS, HEADS),
    "embedding": (lambda w, i: functional.embedding(i, w), X, _places(50, 37)),
    "index_select": (lambda x, i: x.index_select(0, i), X, _places(50, 37)),
    "gather": (lambda x, i: x.gather(0, i.expand(101, 50).mT), X, _places(50, 37)),
    "triu": (torch.triu, X),
    "dropout off": (lambda x: functional.dropout(x, training=False) + 0, X),
}


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16], ids=lambda dtype: str(dtype)[6:]
)
@pytest.mark.parametrize("name", OPERATORS)
def test_operator_of_torch_is_not_accused(name: str, dtype: torch.dtype) -> None:
    fn, *makers = OPERATORS[name]
    args = tuple(make(dtype) for make in makers)
    assert check(fn, args, {}, expected=fn).failure == ""
    out = args[0][..., :-1]  # a view with holes
    assert check(torch.neg, (out,), {}, expected=torch.neg).failure == ""


def _compiled(**options: Any) -> Callable[[torch.Tensor], torch.Tensor]:
    return torch.compile(lambda x: torch.softmax(x * 2, -1), **options)


@pytest.mark.parametrize("options", [{}, {"mode": "reduce-overhead"}], ids=["compiled", "with graphs"])
def test_compiled_function_is_not_accused(options: Any) -> None:
    fn, x = _compiled(**options), torch.randn(37, 101, device="cuda")
    for _ in range(3):
        assert check(fn, (x,), {}, expected=lambda x: torch.softmax(x * 2, -1)).failure == ""
    assert torch.equal(fn(x), fn(x))


def test_captured_graph_is_not_accused() -> None:
    x, out = torch.randn(1000, device="cuda"), torch.zeros(1000, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out.copy_(x * 2)

    def replay(x: torch.Tensor, out: torch.Tensor) -> None:
        graph.replay()

    def doubled(x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        return x * 2

    assert check(replay, (x, out), {}, expected=doubled, mutates=(1,)).failure == ""


def test_backward_pass_is_not_accused() -> None:
    def gradient(x: torch.Tensor, w: torch.nn.Parameter) -> tuple[torch.Tensor, ...]:
        (x @ w).square().sum().backward()  # type: ignore[no-untyped-call]
        assert x.grad is not None
        assert w.grad is not None
        return x.grad.clone(), w.grad.clone()

    x = torch.randn(37, 101, device="cuda", requires_grad=True)
    w = torch.nn.Parameter(torch.randn(101, 65, device="cuda"))
    assert check(gradient, (x, w), {}, expected=gradient, rtol=1e-3, atol=1e-3).failure == ""


def test_packed_arguments_keep_their_shared_memory() -> None:
    qkv = torch.randn(33, 3, 4, 16, device="cuda")

    def share(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        return torch.full((1,), k.data_ptr() - q.data_ptr(), device="cuda")

    assert check(share, (qkv[:, 0], qkv[:, 1]), {}, expected=share).failure == ""


def test_check_after_a_failed_capture_leaves_the_process_alive() -> None:
    code = """
import gc, torch
from pytest_gpuperf.measure.correctness import check
x = torch.randn(64, 64, device="cuda")
x = x @ x.mT + 64 * torch.eye(64, device="cuda")
check(torch.linalg.cholesky, (x,), {}, expected=torch.linalg.cholesky)
try:
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        torch.linalg.cholesky(x).sum().item()
except RuntimeError:
    pass
for n in (1000, 3_000_000):
    y = torch.ones(n, device="cuda")
    assert check(torch.square, (y,), {}, expected=torch.square).passed
gc.collect()
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
