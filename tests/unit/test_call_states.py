"""Other memory that calls write: each verified call starts from the same, and it is restored."""

from __future__ import annotations

import sys
import weakref
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import torch

from pytest_gpuperf.measure import reachable_tensors
from pytest_gpuperf.measure.device.memory import fill
from pytest_gpuperf.measure.reachable_tensors import StateSnapshot, in_reach
from pytest_gpuperf.measure.verification import perturbed_inputs as values_module
from pytest_gpuperf.measure.verification.reexecution import PATTERN
from pytest_gpuperf.measure.verification.verifier import Verifier
from verified_calls import Calls, call_of, data, times, unsuspicious, verify

if TYPE_CHECKING:
    from collections.abc import Callable


pytestmark = pytest.mark.usefixtures("host_counts_as_gpu")


def backward(x: torch.Tensor) -> torch.Tensor | None:
    x.square().sum().backward()  # type: ignore[no-untyped-call]
    return x.grad


class Captured(Calls):
    """Calls of a graph that adds to the gradient that was there when it was captured."""

    live = False

    def __init__(self, x: torch.Tensor) -> None:
        self._x, self.value = x, x.grad

    def run(self, before: Callable[[], object]) -> float:
        before()
        self.value.add_(2 * self._x.detach())
        return 10.0


@pytest.mark.parametrize("former", [None, 3.0], ids=["none", "given"])
@pytest.mark.parametrize("graph", [False, True], ids=["calls", "graph"])
def test_gradient_is_as_before_each_call_and_after(
    monkeypatch: pytest.MonkeyPatch, former: float | None, *, graph: bool
) -> None:
    monkeypatch.setattr(reachable_tensors, "MOST_BYTES", 0)
    x = data().requires_grad_()
    if former is not None:
        x.grad = torch.full_like(x, former)
    call = call_of(backward, x, expected=lambda x: 2 * x.detach() + (former or 0.0))
    before = StateSnapshot(call)
    for _ in range(10):
        call()
    found = Verifier(call, before).replay((Captured(x) if graph else Calls(call)).reruns)
    before.restore()
    assert unsuspicious(found)
    assert x.grad is None if former is None else torch.all(torch.eq(torch.as_tensor(x.grad), former))


def test_argument_that_becomes_a_gradient_keeps_its_values() -> None:
    weight, x = torch.nn.Parameter(data()), data()
    optimizer = torch.optim.SGD([weight])

    def step(gradient: torch.Tensor) -> torch.Tensor:
        weight.grad = gradient
        optimizer.step()
        return weight.detach()

    call = call_of(step, x)
    assert unsuspicious(verify(call, between=times(10, call)))
    assert torch.equal(x, data())


def test_buffers_of_a_module_are_restored() -> None:
    norm = torch.nn.BatchNorm1d(32)
    call = call_of(norm, data())
    assert unsuspicious(verify(call, between=times(10, call)))
    assert norm.num_batches_tracked == 1  # by the call that showed what is written


def test_each_step_of_an_optimizer_starts_from_one_state() -> None:
    model = torch.nn.Linear(32, 1)
    optimizer = torch.optim.Adam(model.parameters())

    def step(x: torch.Tensor) -> torch.Tensor:
        loss: torch.Tensor = model(x).square().mean()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    call = call_of(step, data())
    assert unsuspicious(verify(call, between=times(10, call)))
    assert all(one["step"] == 1 for one in optimizer.state.values())
    assert model.weight.grad is None


def test_next_numbers_of_a_generator_do_not_depend_on_the_timing() -> None:
    generator = torch.Generator().manual_seed(1)
    call = call_of(lambda x, generator: x.bernoulli(0.5, generator=generator), data(), generator)
    verify(call, between=times(10, call))
    assert torch.equal(generator.get_state(), torch.Generator().manual_seed(1).get_state())


def test_call_that_counts_itself_on_the_gpu_is_doubted() -> None:
    x, calls = data(), torch.zeros(1)
    former = x.square()

    def fn(x: torch.Tensor) -> torch.Tensor:
        calls.add_(1)
        return former.clone() if calls > 5 else x.square()

    call = call_of(fn, x, expected=torch.square)
    assert verify(call, between=times(10, call)).doubts


def test_unseen_values_are_told_from_those_kept_on_the_gpu() -> None:
    x = data()
    kept = torch.zeros_like(x)
    slow: list[bool] = []

    def fn(x: torch.Tensor) -> torch.Tensor:
        slow.append(not torch.equal(x, kept))
        kept.copy_(x)
        return x.square()

    call = call_of(fn, x, expected=torch.square)
    found = verify(call, Calls(call, lambda: 30.0 if slow[-1] else 10.0))
    assert "a call on values that it has not seen takes 30 µs" in found.doubts[0]


def test_argument_that_a_timing_names_is_restored() -> None:
    x = data()
    call = call_of(lambda x: [x.mul_(2), None][1], x, mutates=(0,))
    assert unsuspicious(verify(call, between=times(10, call)))
    assert torch.equal(x, data())


def test_call_is_not_made_if_it_reaches_only_its_arguments() -> None:
    called: list[int] = []
    StateSnapshot(call_of(lambda x: called.append(1), data()))
    assert not called


TENSOR = torch.ones(3)


class Holder:
    def __init__(self, tensor: torch.Tensor) -> None:
        self.held = {"deep": [tensor]}

    def run(self) -> None: ...


def dead_proxy() -> object:
    return weakref.proxy(Holder(TENSOR))


def by_closure() -> Callable[[], object]:
    tensor = TENSOR
    return lambda: [tensor for _ in ()]


@pytest.mark.parametrize(
    "fn",
    [
        by_closure(),
        lambda: [TENSOR for _ in ()],
        lambda: values_module.tensor,  # type: ignore[attr-defined]
        lambda tensor=TENSOR: tensor,
        partial(print, end=TENSOR),
        Holder(TENSOR).run,
        torch.nn.ParameterDict({"a": torch.nn.Parameter(TENSOR)}).forward,
        type("Module", (torch.nn.Module,), {"forward": lambda _: TENSOR})(),
        type("Cached", (), {"cache": TENSOR})(),
        SimpleNamespace(optimizer=torch.optim.SGD([TENSOR])),
        [dead_proxy(), TENSOR],
    ],
    ids=[
        "closure",
        "global",
        "module",
        "default",
        "partial",
        "method",
        "nn",
        "code",
        "class",
        "SGD",
        "proxy",
    ],
)
def test_tensor_of_a_callable_is_found(fn: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values_module, "tensor", TENSOR, raising=False)
    assert TENSOR.data_ptr() in [one.data_ptr() for one in in_reach(fn)[0]]


def test_tensor_of_a_compiled_callable_is_found() -> None:
    (found,) = in_reach(torch.compile(Holder(TENSOR).run))[0]
    assert found is TENSOR


def test_tensors_of_others_are_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "OTHER", TENSOR, raising=False)
    assert in_reach(torch.square, lambda: torch.nn, pytest, "text") == ([], [])


def padded(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(2 * len(x), x.shape[1])
    out[: len(x)] = x * 3
    return out


def test_elements_that_no_call_writes_are_named() -> None:
    found = verify(call_of(padded, data()))
    assert (found.refused, found.doubts, found.other_values) == ("", (), True)
    assert found.not_verified == "a plain call does not write 2048 of 4096 elements either"


@pytest.mark.parametrize("fn", [padded, lambda x: padded(x)[: len(x)]], ids=["whole", "part"])
def test_valid_part_of_an_output_is_verified(fn: Callable[[torch.Tensor], torch.Tensor]) -> None:
    found = verify(call_of(fn, data(), expected=lambda x: x * 3))
    assert unsuspicious(found)
    assert found.other_values


def test_elements_that_only_a_plain_call_writes_are_missed() -> None:
    x = data()

    def fn(argument: torch.Tensor) -> torch.Tensor:
        out = padded(argument)
        if argument is x:
            fill(out[32:], PATTERN)
        return out

    assert "timed calls did not compute their output" in verify(call_of(fn, x)).doubts[0]
