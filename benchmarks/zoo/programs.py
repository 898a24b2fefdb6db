"""Streams, events, copies, threads, CUDA graphs of the callable's own, and two devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from benchmarks.zoo.cases import add, close, honest
from benchmarks.zoo.steps import matrix
from benchmarks.zoo.typed_operators import Honest

if TYPE_CHECKING:
    from collections.abc import Callable

STREAMS, COPIES, GRAPHS, DEVICES = "streams and events", "copies", "graphs of its own", "two devices"


def _stream(priority: int = 0) -> torch.cuda.Stream:
    return torch.cuda.Stream(priority=priority)  # type: ignore[no-untyped-call]


def _event() -> torch.cuda.Event:
    return torch.cuda.Event()  # type: ignore[no-untyped-call]


@honest(STREAMS, cuda=True)
def on_a_stream_by_events(device: torch.device) -> Honest:
    """Fork and join by events."""
    side, begun, done = _stream(), _event(), _event()

    def call(x: torch.Tensor) -> torch.Tensor:
        begun.record()
        with torch.cuda.stream(side):
            side.wait_event(begun)
            y = x * 3
            done.record()
        torch.cuda.current_stream().wait_event(done)
        return y

    return Honest(call, (matrix(device),), lambda x: 3 * x)


@honest(STREAMS, cuda=True)
def on_an_urgent_stream(device: torch.device) -> Honest:
    side = _stream(-1)

    def call(x: torch.Tensor) -> torch.Tensor:
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            y = x * 3
        torch.cuda.current_stream().wait_stream(side)
        return y

    return Honest(call, (matrix(device),), lambda x: 3 * x)


@honest(STREAMS, cuda=True)
def new_stream_each_call(device: torch.device) -> Honest:
    def call(x: torch.Tensor) -> torch.Tensor:
        side, current = _stream(), torch.cuda.current_stream()
        side.wait_stream(current)
        with torch.cuda.stream(side):
            y = x.exp()
        current.wait_stream(side)
        return y

    return Honest(call, (matrix(device),), torch.exp)


@honest(STREAMS, cuda=True)
def pipelined_chunks(device: torch.device) -> Honest:
    """Hand chunks from one stream to another."""
    first, second = _stream(), _stream()

    def call(x: torch.Tensor) -> torch.Tensor:
        current, out = torch.cuda.current_stream(), torch.empty_like(x)
        first.wait_stream(current)
        second.wait_stream(current)
        for part, whole in zip(x.chunk(4), out.chunk(4), strict=True):
            with torch.cuda.stream(first):
                half = part.sin()
            second.wait_stream(first)
            with torch.cuda.stream(second):
                whole.copy_(half.cos())
                half.record_stream(second)
        current.wait_stream(second)
        return out

    return Honest(call, (matrix(device),), lambda x: x.sin().cos())


@honest(STREAMS, cuda=True)
def waits_on_the_host(device: torch.device) -> Honest:
    """Wait for an event in the middle."""
    done = _event()

    def call(x: torch.Tensor) -> torch.Tensor:
        y = x.exp()
        done.record()
        done.synchronize()
        return y + 1

    return Honest(call, (matrix(device),), lambda x: 1 + x.exp())


@honest(STREAMS, cuda=True)
def synchronises_the_device(device: torch.device) -> Honest:
    def call(x: torch.Tensor) -> torch.Tensor:
        y = x.exp()
        torch.cuda.synchronize()
        return y

    return Honest(call, (matrix(device),), torch.exp)


@honest(STREAMS, cuda=True)
def own_timing(device: torch.device) -> Honest:
    """Time itself by events, as many scripts do."""

    def call(x: torch.Tensor) -> torch.Tensor:
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        begin.record()
        y = x.exp()
        end.record()
        end.synchronize()
        begin.elapsed_time(end)
        return y

    return Honest(call, (matrix(device),), torch.exp)


@honest(STREAMS)
def branch_on_a_value(device: torch.device) -> Honest:
    """Choose work by a value on the GPU."""

    def call(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.abs().sum() > 0 else x

    return Honest(call, (matrix(device),), lambda x: x + x)


@honest(STREAMS)
def iterated_until_steady(device: torch.device) -> Honest:
    """Loop until a value on the GPU is small."""

    def call(x: torch.Tensor) -> torch.Tensor:
        while x.abs().amax() > 1e-3:
            x = x / 8
        return torch.sign(x)

    return Honest(call, (matrix(device),), lambda x: torch.sign(x.clone()))


@honest(STREAMS)
def inference_mode(device: torch.device) -> Honest:
    def call(x: torch.Tensor) -> torch.Tensor:
        with torch.inference_mode():
            return x * 2

    return Honest(call, (matrix(device),), lambda x: x + x)


@honest(STREAMS, cuda=True)
def annotated(device: torch.device) -> Honest:
    """Mark ranges for profilers."""

    def call(x: torch.Tensor) -> torch.Tensor:
        with torch.cuda.nvtx.range("zoo"), torch.profiler.record_function("zoo"):
            return x * 2

    return Honest(call, (matrix(device),), lambda x: x + x)


@honest(COPIES, cuda=True)
def to_the_host(device: torch.device) -> Honest:
    return Honest(lambda x: x.cpu(), (matrix(device),), lambda x: x.clone().to("cpu"))


@honest(COPIES, cuda=True)
def from_pageable_memory(device: torch.device) -> Honest:
    return Honest(lambda x: x.to(device) * 2, (matrix(torch.device("cpu")),), lambda x: 2 * x.to(device))


@honest(COPIES, cuda=True)
def from_pinned_memory(device: torch.device) -> Honest:
    args = matrix(device), matrix(torch.device("cpu")).pin_memory()
    return Honest(
        lambda x, host: x + host.to(device, non_blocking=True), args, lambda x, host: host.to(device) + x
    )


@honest(COPIES, cuda=True)
def into_pinned_memory(device: torch.device) -> Honest:
    """Copy a result to the host, and return it on the GPU as well."""
    host = matrix(torch.device("cpu")).pin_memory()

    def call(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        host.copy_(y, non_blocking=True)
        return y

    return Honest(call, (matrix(device),), lambda x: x + x)


@honest(COPIES)
def number_of_the_host(device: torch.device) -> Honest:
    """Multiply by a tensor of one number on the host."""
    args = matrix(device), torch.tensor(3.0)
    return Honest(lambda x, s: x * s, args, lambda x, _: 3 * x)


@honest(COPIES)
def new_tensor_of_numbers(device: torch.device) -> Honest:
    """Send a list of numbers to the GPU in each call."""

    def call(x: torch.Tensor) -> torch.Tensor:
        return x * torch.tensor([1.0, 2.0, 3.0, 4.0], device=device).repeat(128)

    def expected(x: torch.Tensor) -> torch.Tensor:
        return x * (torch.arange(512, device=device) % 4 + 1)

    return Honest(call, (matrix(device),), expected)


@honest(COPIES)
def read_one_number(device: torch.device) -> Honest:
    return Honest(lambda x: x / x.sum().abs().item(), (matrix(device),), lambda x: x / x.sum().abs())


@honest(COPIES)
def cloned(device: torch.device) -> Honest:
    return Honest(lambda x: x.clone(), (matrix(device, 2048, 2048),), lambda x: x + 0)


@honest(COPIES)
def by_numpy(device: torch.device) -> Honest:
    """Work on the host in the middle."""

    def call(x: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(x.cpu().numpy() * 2).to(device) + 1

    return Honest(call, (matrix(device),), lambda x: 2 * x + 1)


def _captured(fn: Callable[[], Any]) -> tuple[torch.cuda.CUDAGraph, Any]:
    """Return a graph of a function's work, and its value."""
    side = _stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        fn()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        value = fn()
    return graph, value


@honest(GRAPHS, cuda=True)
def replayed_on_static_memory(device: torch.device) -> Honest:
    static = matrix(device)
    graph, out = _captured(lambda: (static.sin() + 1).cos())

    def call(x: torch.Tensor) -> Any:
        static.copy_(x)
        graph.replay()
        return out.clone()

    return close(call, (matrix(device),), lambda x: (x.double().sin() + 1).cos(), tolerance=1e-5)


@honest(GRAPHS, cuda=True)
def replayed_without_a_copy(device: torch.device) -> Honest:
    """Return the graph's own output, which the next replay overwrites."""
    static = matrix(device)
    graph, out = _captured(lambda: static * 2)

    def call(x: torch.Tensor) -> Any:
        static.copy_(x)
        graph.replay()
        return out

    return Honest(call, (matrix(device),), lambda x: x + x)


@honest(GRAPHS, cuda=True)
def graph_of_forty_kernels(device: torch.device) -> Honest:
    static = matrix(device, 64, 64)

    def work() -> torch.Tensor:
        y = static
        for _ in range(40):
            y = y * 0.9
        return y

    graph, out = _captured(work)

    def call(x: torch.Tensor) -> Any:
        static.copy_(x)
        graph.replay()
        return out.clone()

    return close(call, (matrix(device, 64, 64),), lambda x: x.double() * 0.9**40, tolerance=1e-4)


@honest(GRAPHS, cuda=True)
def made_graphed_callable(device: torch.device) -> Honest:
    layer = torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.ReLU()).to(device)
    weight, bias = (one.detach().double() for one in layer.parameters())
    graphed = torch.cuda.make_graphed_callables(layer, (matrix(device),))
    return close(graphed, (matrix(device),), lambda x: (x.double() @ weight.T + bias).relu())


@honest(GRAPHS, cuda=True)
def two_graphs(device: torch.device) -> Honest:
    """Replay two graphs that share their memory."""
    static = matrix(device)
    first, middle = _captured(lambda: static.exp())
    second, out = _captured(lambda: middle.log1p())

    def call(x: torch.Tensor) -> Any:
        static.copy_(x)
        first.replay()
        second.replay()
        return out.clone()

    return close(call, (matrix(device),), lambda x: x.double().exp().log1p(), tolerance=1e-4)


@honest(DEVICES, gpus=2)
def on_the_other_device(_: torch.device) -> Honest:
    """Work on a device that is not the current one."""
    return Honest(lambda x: x * 2, (matrix(torch.device("cuda", 1)),), lambda x: x + x)


@honest(DEVICES, gpus=2)
def there_and_back(device: torch.device) -> Honest:
    other = torch.device("cuda", 1)
    return Honest(lambda x: (x.to(other) * 2).to(device), (matrix(device),), lambda x: x + x)


@honest(DEVICES, gpus=2)
def halves_on_two_devices(device: torch.device) -> Honest:
    other = torch.device("cuda", 1)

    def call(x: torch.Tensor) -> torch.Tensor:
        upper, lower = x.chunk(2)
        there = lower.to(other).exp()
        return torch.cat((upper.exp(), there.to(device)))

    return Honest(call, (matrix(device),), torch.exp)


@honest(DEVICES, gpus=2)
def outputs_on_two_devices(device: torch.device) -> Honest:
    other = torch.device("cuda", 1)
    args = matrix(device), matrix(other)
    return Honest(lambda x, y: (x * 2, y * 3), args, lambda x, y: (x + x, 3 * y))


def _linear_algebra(
    name: str, fn: Callable[[torch.Tensor], Any], expected: Callable[[torch.Tensor], Any]
) -> None:
    """Add a routine of cuSOLVER for a symmetric positive definite matrix."""

    def make(device: torch.device) -> Honest:
        x = matrix(device, 128, 128)
        return close(fn, (x @ x.T / 128 + torch.eye(128, device=device),), expected, tolerance=1e-2)

    add("cuSOLVER", name, make)


_linear_algebra("inverse", torch.linalg.inv, lambda x: torch.linalg.inv(x.double()))
_linear_algebra("eigenvalues", torch.linalg.eigvalsh, lambda x: torch.linalg.eigvalsh(x.double()))
_linear_algebra(
    "solution", lambda x: torch.linalg.solve(x, x[:, :8]), lambda x: torch.eye(128, device=x.device)[:, :8]
)
_linear_algebra("determinant", torch.linalg.slogdet, lambda x: tuple(torch.linalg.slogdet(x.double())))
_linear_algebra("qr_and_back", lambda x: torch.matmul(*torch.linalg.qr(x)), lambda x: x.clone())


@honest("DTensor")
def distributed(device: torch.device) -> Honest:
    """Take and return a tensor that is distributed over one device."""
    from torch import distributed
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, distribute_tensor

    if not distributed.is_initialized():
        distributed.init_process_group("gloo", rank=0, world_size=1, store=distributed.HashStore())
    mesh = init_device_mesh(device.type, (1,))
    x = distribute_tensor(matrix(device), mesh, [Replicate()])
    return Honest(lambda x: x * 2, (x,), lambda x: x + x)
