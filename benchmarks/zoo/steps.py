"""Optimisers, training steps, and work in place or into given memory."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import nn

from benchmarks.zoo.cases import add, close, honest
from benchmarks.zoo.typed_operators import Honest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SIZE = 512
OPTIMISERS: dict[str, tuple[str, dict[str, Any]]] = {
    "SGD": ("SGD", {}),
    "SGD_nesterov": ("SGD", {"momentum": 0.9, "nesterov": True}),
    "SGD_fused": ("SGD", {"fused": True}),
    "Adam": ("Adam", {}),
    "Adam_amsgrad": ("Adam", {"amsgrad": True}),
    "Adam_fused": ("Adam", {"fused": True}),
    "AdamW": ("AdamW", {}),
    "AdamW_one_by_one": ("AdamW", {"foreach": False}),
    "Adamax": ("Adamax", {}),
    "NAdam": ("NAdam", {}),
    "RAdam": ("RAdam", {}),
    "RMSprop": ("RMSprop", {}),
    "Adagrad": ("Adagrad", {}),
    "Adadelta": ("Adadelta", {}),
    "ASGD": ("ASGD", {}),
    "Rprop": ("Rprop", {}),
    "Adafactor": ("Adafactor", {}),
    "Muon": ("Muon", {}),
}
"""Name in `torch.optim`, and options."""


def matrix(device: torch.device, rows: int = SIZE, columns: int = SIZE) -> torch.Tensor:
    """Return normal random numbers."""
    return torch.randn(rows, columns, device=device)


def _optimiser(name: str, device: torch.device) -> Honest:
    """Step with given gradients; the state moves on with each call, so nothing can be its reference."""
    kind, options = OPTIMISERS[name]
    if not hasattr(torch.optim, kind):
        raise ImportError(f"torch {torch.__version__} has no optimiser {kind}")
    size = SIZE // 4 if device.type == "cpu" else SIZE  # a CPU takes seconds for Muon
    parameters = [nn.Parameter(matrix(device, size, size)) for _ in range(3)]
    optimiser = getattr(torch.optim, kind)(parameters, lr=1e-4, **options)

    def step(*gradients: torch.Tensor) -> list[torch.Tensor]:
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient
        optimiser.step()
        return [parameter.detach() for parameter in parameters]

    return Honest(step, tuple(matrix(device, size, size) for _ in parameters))


for _name in OPTIMISERS:
    add("optimisers", f"{_name}_step", partial(_optimiser, _name))


def _adam_expected(
    p: torch.Tensor, g: torch.Tensor, mean: torch.Tensor, square: torch.Tensor
) -> tuple[torch.Tensor, ...]:
    """Return parameters and state after the second step of AdamW, in float64."""
    p, g, mean, square = (one.double() for one in (p, g, mean, square))
    mean, square = 0.9 * mean + 0.1 * g, 0.999 * square + 0.001 * g * g
    corrected = mean / (1 - 0.9**2), square / (1 - 0.999**2)
    return p * (1 - 1e-2 * 1e-2) - 1e-2 * corrected[0] / (corrected[1].sqrt() + 1e-8), mean, square


@honest("optimisers")
def adamw_with_state_as_arguments(device: torch.device) -> Honest:
    """Step with parameters, gradient and state in the arguments."""
    parameter = nn.Parameter(matrix(device))
    optimiser = torch.optim.AdamW([parameter], lr=1e-2, weight_decay=1e-2, fused=True)

    def step(p: torch.Tensor, g: torch.Tensor, mean: torch.Tensor, square: torch.Tensor) -> None:
        parameter.data, parameter.grad = p, g
        count = torch.ones((), device=device)
        optimiser.state[parameter] = {"step": count, "exp_avg": mean, "exp_avg_sq": square}
        optimiser.step()

    args = matrix(device), matrix(device), matrix(device), matrix(device).square()
    return close(step, args, _adam_expected, mutates=(0, 2, 3), tolerance=1e-4)


@honest("optimisers")
def lbfgs_step(device: torch.device) -> Honest:
    """Call a closure several times, and read the loss on the host."""
    parameter = nn.Parameter(matrix(device, 64, 64))
    optimiser = torch.optim.LBFGS([parameter], max_iter=3)

    def step(target: torch.Tensor) -> torch.Tensor:
        parameter.data.zero_()
        optimiser.state.clear()

        def closure() -> torch.Tensor:
            optimiser.zero_grad()
            loss = (parameter - target).square().sum()
            loss.backward()  # type: ignore[no-untyped-call]
            return loss

        optimiser.step(closure)
        return parameter.detach().clone()

    return close(step, (matrix(device, 64, 64),), lambda target: target.double())


@honest("optimisers")
def clip_gradients(device: torch.device) -> Honest:
    parameters = [nn.Parameter(matrix(device)) for _ in range(3)]

    def clip(*gradients: torch.Tensor) -> None:
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient
        nn.utils.clip_grad_norm_(parameters, 1.0)

    def expected(*gradients: torch.Tensor) -> list[torch.Tensor]:
        norm = torch.stack([one.double().norm() for one in gradients]).norm()
        return [one.double() / (norm + 1e-6) for one in gradients]

    args = tuple(matrix(device) for _ in parameters)
    return Honest(clip, args, expected, (0, 1, 2), rtol=1e-4, atol=1e-8)


@honest("optimisers")
def moving_average(device: torch.device) -> Honest:
    def update(average: torch.Tensor, new: torch.Tensor) -> None:
        average.lerp_(new, 0.001)

    args = matrix(device), matrix(device)
    return Honest(update, args, lambda average, new: torch.lerp(average, new, 0.001), (0,))


@honest("optimisers", cuda=True)
def scaled_gradients(device: torch.device) -> Honest:
    """Unscale gradients and step, which waits for the GPU."""
    parameter = nn.Parameter(matrix(device))
    optimiser = torch.optim.SGD([parameter], lr=1e-4)
    scaler = torch.amp.GradScaler("cuda", init_scale=2.0)

    def step(x: torch.Tensor) -> torch.Tensor:
        optimiser.zero_grad()
        scaler.scale((x @ parameter).square().mean()).backward()  # type: ignore[no-untyped-call]
        scaler.step(optimiser)
        scaler.update()
        return parameter.detach()

    return Honest(step, (matrix(device),))


@honest("optimisers")
def accumulated_gradients(device: torch.device) -> Honest:
    """Add to `.grad` from call to call."""
    layer = nn.Linear(SIZE, SIZE, device=device)

    def call(x: torch.Tensor) -> Any:
        loss = layer(x).square().mean()
        loss.backward()
        return loss.detach()

    def expected(x: torch.Tensor) -> torch.Tensor:
        weight, bias = (one.detach().double() for one in (layer.weight, layer.bias))
        return F.linear(x.double(), weight, bias).square().mean()

    return close(call, (matrix(device),), expected)


@honest("optimisers")
def step_of_a_linear_layer(device: torch.device) -> Honest:
    """Clear gradients, run both passes, and return the weight's gradient."""
    layer = nn.Linear(SIZE, SIZE, device=device)

    def call(x: torch.Tensor) -> torch.Tensor:
        layer.zero_grad(set_to_none=True)
        layer(x).square().sum().backward()
        assert layer.weight.grad is not None
        return layer.weight.grad / len(x)

    def expected(x: torch.Tensor) -> torch.Tensor:
        weight, bias, x = layer.weight.detach().double(), layer.bias.detach().double(), x.double()
        return 2 * F.linear(x, weight, bias).T @ x / len(x)

    return close(call, (matrix(device),), expected)


@honest("optimisers")
def checkpointed(device: torch.device) -> Honest:
    """Run the forward pass again in the backward pass."""
    from torch.utils.checkpoint import checkpoint

    def call(x: torch.Tensor) -> Any:
        x = x.detach().requires_grad_()
        y = checkpoint(lambda x: x.tanh().sin(), x, use_reentrant=False)
        return torch.autograd.grad(y.sum(), x)[0]

    def expected(x: torch.Tensor) -> torch.Tensor:
        inner = x.double().tanh()
        return inner.cos() * (1 - inner * inner)

    return close(call, (matrix(device),), expected, tolerance=1e-4)


@honest("optimisers")
def double_backward(device: torch.device) -> Honest:
    """Differentiate a gradient."""

    def call(x: torch.Tensor) -> Any:
        x = x.detach().requires_grad_()
        (first,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
        return torch.autograd.grad(first.sum(), x)[0]

    return close(call, (matrix(device),), lambda x: 6 * x.double(), tolerance=1e-4)


class _Square(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, x: torch.Tensor) -> torch.Tensor:
        context.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> Any:
        (x,) = context.saved_tensors
        return 2 * x * gradient


@honest("optimisers")
def autograd_function(device: torch.device) -> Honest:
    def call(x: torch.Tensor) -> Any:
        x = x.detach().requires_grad_()
        return torch.autograd.grad(_Square.apply(x).sum(), x)[0]  # type: ignore[no-untyped-call]

    return Honest(call, (matrix(device),), lambda x: 2 * x)


@honest("optimisers")
def per_sample_gradients(device: torch.device) -> Honest:
    """Use torch.func."""

    def call(weight: torch.Tensor, x: torch.Tensor) -> Any:
        def loss(weight: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
            return (weight @ row).square().sum()

        return torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(weight, x)

    def expected(weight: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        weight, x = weight.double(), x.double()
        return 2 * (x @ weight.T)[:, :, None] * x[:, None, :]

    return close(call, (matrix(device, 32, 64) / 8, matrix(device, 64, 64)), expected)


def _in_place(name: str, fn: Callable[..., object], expected: Callable[..., Any], *extra: str) -> None:
    """Add a callable that writes to its first argument and returns None."""

    def make(device: torch.device) -> Honest:
        def call(*args: torch.Tensor) -> None:
            fn(*args)

        others = [_others[one](device) for one in extra]
        return Honest(call, (matrix(device), *others), expected, (0,), rtol=1e-4, atol=1e-4)

    add("in place and out=", name, make)


_others: dict[str, Callable[[torch.device], torch.Tensor]] = {
    "matrix": matrix,
    "mask": lambda device: matrix(device) > 0,
    "row": lambda device: torch.randperm(SIZE, device=device)[:64],
    "rows": lambda device: matrix(device, 64),
}
_in_place("masked_fill_", lambda x, m: x.masked_fill_(m, 1), lambda x, m: x.masked_fill(m, 1), "mask")
_in_place(
    "index_copy_",
    lambda x, at, new: x.index_copy_(0, at, new),
    lambda x, at, new: x.index_copy(0, at, new),
    "row",
    "rows",
)
_in_place(
    "index_put_accumulate",
    lambda x, at, new: x.index_put_((at,), new, accumulate=True),
    lambda x, at, new: x.index_add(0, at, new),
    "row",
    "rows",
)
_in_place("slice_assignment", lambda x, y: x[::2].copy_(y[1::2]), lambda x, y: _sliced(x, y), "matrix")
_in_place("relu_in_place", lambda x: F.relu(x, inplace=True), torch.relu)
_in_place("addmm_in_place", lambda x, y: x.addmm_(y, y, alpha=0.01), lambda x, y: _addmm(x, y), "matrix")
_in_place("foreach_add", lambda x, y: torch._foreach_add_([x], [y]), torch.add, "matrix")
_in_place("exchanged", lambda x: x.copy_(x.flip(0)), lambda x: x.flip(0))


def _sliced(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x = x.clone()
    x[::2] = y[1::2]
    return x


def _addmm(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x.double() + 0.01 * (y.double() @ y.double())


def _into(
    name: str, fn: Callable[..., object], outputs: Sequence[Callable[[torch.device], torch.Tensor]]
) -> None:
    """Add a callable that writes into the arguments after its first one, with `out=`."""

    def make(device: torch.device) -> Honest:
        outs = tuple(one(device) for one in outputs)

        def call(x: torch.Tensor, *outs: torch.Tensor) -> None:
            fn(x, out=outs if len(outs) > 1 else outs[0])

        def expected(x: torch.Tensor, *_: torch.Tensor) -> Any:
            return fn(x, out=None)

        return Honest(call, (matrix(device), *outs), expected, tuple(range(1, 1 + len(outs))))

    add("in place and out=", name, make)


_into("square_out", torch.square, [matrix])
_into("softmax_out", lambda x, out: torch.softmax(x, -1, out=out), [matrix])
_into("cumsum_out", lambda x, out: torch.cumsum(x, -1, out=out), [matrix])
_into("sum_out", lambda x, out: torch.sum(x, -1, out=out), [lambda device: torch.zeros(SIZE, device=device)])
_into(
    "max_out",
    lambda x, out: torch.max(x, -1, out=out),
    [
        lambda device: torch.zeros(SIZE, device=device),
        lambda device: torch.zeros(SIZE, device=device, dtype=torch.int64),
    ],
)
_into("out_in_columns", lambda x, out: torch.neg(x, out=out), [lambda device: matrix(device).t()])


@honest("in place and out=")
def returns_its_argument(device: torch.device) -> Honest:
    return Honest(lambda x: x.relu_(), (matrix(device),), torch.relu, mutates=(0,))


@honest("in place and out=")
def value_and_in_place(device: torch.device) -> Honest:
    """Add to a residual in place, and return something else."""

    def call(x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        residual += x
        return residual * 2

    return Honest(call, (matrix(device), matrix(device)), lambda x, r: (r + x) * 2, mutates=(1,))


@honest("in place and out=")
def key_value_cache(device: torch.device) -> Honest:
    """Write the keys of one position into a cache, and attend to all of it."""

    def call(cache: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        cache[:, 17] = key
        return torch.einsum("bd,bsd->bs", key, cache)

    def expected(cache: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        cache = cache.clone()
        cache[:, 17] = key
        return (cache.double() @ key.double()[:, :, None])[..., 0]

    args = torch.randn(16, 256, 64, device=device), matrix(device, 16, 64)
    return close(call, args, expected, mutates=(0,))


@honest("in place and out=")
def running_statistics(device: torch.device) -> Honest:
    """Normalise with statistics of the batch, and update the running ones."""

    def call(x: torch.Tensor, mean: torch.Tensor, variance: torch.Tensor) -> None:
        F.batch_norm(x, mean, variance, training=True)

    def expected(x: torch.Tensor, mean: torch.Tensor, variance: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x = x.double()
        return 0.9 * mean + 0.1 * x.mean(0), 0.9 * variance + 0.1 * x.var(0)

    args = matrix(device), torch.zeros(SIZE, device=device), torch.ones(SIZE, device=device)
    return close(call, args, expected, mutates=(1, 2), tolerance=1e-4)
