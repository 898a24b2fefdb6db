"""Calls that write more than their output, on a real GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

SUITE = """
import pytest, torch

def data(n=1024, **options):
    return torch.randn(1024, n, device="cuda", **options)

def backward(x):
    (x * x).sum().backward()
    return x.grad

@pytest.mark.parametrize("former", [None, 3.0])
@pytest.mark.parametrize("mode", ["hot", "queued"])
def test_backward(gpuperf, former, mode):
    x = data(requires_grad=True)
    if former is not None:
        x.grad = torch.full_like(x, former)
    found = gpuperf(backward, x, expected=lambda x: 2 * x.detach() + (former or 0.0), mode=mode)
    assert found.timing.verification.other_values, found.timing.verification
    assert x.grad is None if former is None else bool((x.grad == former).all())

@pytest.mark.parametrize("waits", [False, True])
def test_optimizer(gpuperf, waits):
    model, steps = torch.nn.Linear(1024, 1024, device="cuda"), torch.zeros((), device="cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    # Its step waits for the GPU in the middle, and must not end there.
    scaler = torch.amp.GradScaler("cuda", enabled=waits)
    def step(x):
        steps.add_(1)
        loss = model(x).square().mean()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        return loss.detach()
    assert gpuperf.time(step, data()).mode == ("kernels" if waits else "hot")
    # The first calls are not restored, the thousands of the timing are.
    assert steps <= 10
    assert model.weight.grad is None

inputs_of = []

def keep(graph, inputs):
    # A dynamic size is an input of its own.
    inputs_of.append(len(inputs))
    return graph

@torch.compile(backend=keep)
def double(x):
    return x * 2

@pytest.mark.parametrize("n", [256, 781, 1823])
def test_shape(gpuperf, n):
    gpuperf.time(double, data(n))
    assert inputs_of[-1] == 1, inputs_of

def test_default_device(gpuperf):
    with torch.device("cuda"):
        gpuperf(torch.square, data(), expected=torch.square)

def test_next_numbers_do_not_depend_on_the_timing(gpuperf):
    state = torch.cuda.get_rng_state()
    gpuperf.time(torch.nn.functional.dropout, data())
    before = torch.rand(8, device="cuda")
    torch.cuda.set_rng_state(state)
    data()
    assert torch.equal(before, torch.rand(8, device="cuda"))
"""


def test_states_are_neither_accused_nor_left_changed(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_k=SUITE)
    result = pytester.runpytest_subprocess("--gpuperf", "--gpuperf-counters=off", "-rA", timeout=300)
    result.assert_outcomes(passed=11)
