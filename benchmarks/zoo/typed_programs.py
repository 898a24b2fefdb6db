"""Honest callables of more than one operator: streams, graphs, Triton, modules, optimisers and libraries."""

from __future__ import annotations

import threading
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name

from benchmarks.zoo.typed_operators import SIZE, Honest, add, matrix


def _stream() -> torch.cuda.Stream:
    return torch.cuda.Stream()  # type: ignore[no-untyped-call]


@add("joined_streams")
def joined_streams(device: torch.device, dtype: torch.dtype) -> Honest:
    """Use four streams that all wait for each other."""
    streams = [_stream() for _ in range(4)]

    def call(x: torch.Tensor) -> Any:
        current = torch.cuda.current_stream()
        outs = []
        for part, stream in zip(x.chunk(4), streams, strict=True):
            stream.wait_stream(current)
            with torch.cuda.stream(stream):
                outs.append(torch.tanh(part) @ part.t())
            current.wait_stream(stream)
        return torch.stack(outs)

    def expected(x: torch.Tensor) -> torch.Tensor:
        return torch.stack([part.tanh() @ part.t() for part in x.chunk(4)])

    return Honest(call, (matrix(device, dtype),), expected)


@add("joined_at_the_end")
def joined_at_the_end(device: torch.device, dtype: torch.dtype) -> Honest:
    """Fork to a stream early and join it late."""
    side = _stream()

    def call(x: torch.Tensor) -> Any:
        current = torch.cuda.current_stream()
        side.wait_stream(current)
        with torch.cuda.stream(side):
            left = x.exp()
        right = x @ x
        current.wait_stream(side)
        return left + right

    return Honest(call, (matrix(device, dtype),), lambda x: x.exp() + x @ x)


@add("own_stream")
def own_stream(device: torch.device, dtype: torch.dtype) -> Honest:
    """Work on a stream of its own and wait for it on the host, as some libraries do."""
    side = _stream()

    def call(x: torch.Tensor) -> Any:
        torch.cuda.current_stream().synchronize()
        with torch.cuda.stream(side):
            out = torch.square(x)
        side.synchronize()
        return out

    return Honest(call, (matrix(device, dtype),), torch.square)


@add("thread_pool")
def thread_pool(device: torch.device, dtype: torch.dtype) -> Honest:
    """Launch from another thread on the caller's stream, and wait for that thread."""

    def call(x: torch.Tensor) -> Any:
        outs: list[torch.Tensor] = []
        stream = torch.cuda.current_stream()

        def work() -> None:
            with torch.cuda.stream(stream):
                outs.append(torch.square(x))

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        return outs[0]

    return Honest(call, (matrix(device, dtype),), torch.square)


@add("graph_replay")
def graph_replay(device: torch.device, dtype: torch.dtype) -> Honest:
    """Replay a CUDA graph of its own on static memory."""
    static = matrix(device, dtype)
    warm = _stream()
    with torch.cuda.stream(warm):
        static.tanh()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = static.tanh()

    def call(x: torch.Tensor) -> Any:
        static.copy_(x)
        graph.replay()
        return out.clone()

    return Honest(call, (matrix(device, dtype),), torch.tanh)


@add("static_output")
def static_output(device: torch.device, dtype: torch.dtype) -> Honest:
    """Write into the same output memory in each call."""
    out = matrix(device, dtype)
    return Honest(lambda x: torch.mul(x, 2, out=out), (matrix(device, dtype),), lambda x: 2 * x)


@add("workspace")
def workspace(device: torch.device, dtype: torch.dtype) -> Honest:
    """Keep a workspace by shape from call to call."""
    kept: dict[Any, torch.Tensor] = {}

    def call(x: torch.Tensor) -> Any:
        space = kept.setdefault(tuple(x.shape), torch.empty_like(x))
        torch.exp(x, out=space)
        return space / space.sum(-1, keepdim=True)

    return Honest(call, (matrix(device, dtype),), lambda x: torch.softmax(x, -1))


@add("triton_kernel")
def triton_kernel(device: torch.device, dtype: torch.dtype) -> Honest:
    """Call a kernel of the suites."""
    from suites.kernels.square import square_triton

    return Honest(square_triton, (matrix(device, dtype),), torch.square)


def _mlp(device: torch.device, dtype: torch.dtype) -> torch.nn.Module:
    layers = [torch.nn.Linear(SIZE, SIZE), torch.nn.GELU(), torch.nn.Linear(SIZE, SIZE)]
    return torch.nn.Sequential(*layers).to(device=device, dtype=dtype)


@add("mlp")
def mlp(device: torch.device, dtype: torch.dtype) -> Honest:
    model = _mlp(device, dtype)
    return Honest(model, (matrix(device, dtype),), model)


@add("backward")
def backward(device: torch.device, dtype: torch.dtype) -> Honest:
    def call(x: torch.Tensor) -> Any:
        x = x.detach().requires_grad_()
        (x.tanh() @ x).sum().backward()  # type: ignore[no-untyped-call]
        assert x.grad is not None
        return x.grad

    return Honest(call, (matrix(device, dtype),), call, rtol=0.1, atol=0.1)


def _optimiser(device: torch.device, dtype: torch.dtype, kind: Any, **options: Any) -> Honest:
    model = _mlp(device, dtype)
    optimiser = kind(model.parameters(), **options)
    for parameter in model.parameters():
        parameter.grad = torch.randn_like(parameter)
    return Honest(lambda: optimiser.step(), ())


@add("sgd_step")
def sgd_step(device: torch.device, dtype: torch.dtype) -> Honest:
    return _optimiser(device, dtype, torch.optim.SGD, lr=1e-3, momentum=0.9)


@add("adam_step")
def adam_step(device: torch.device, dtype: torch.dtype) -> Honest:
    return _optimiser(device, dtype, torch.optim.Adam, capturable=True)


@add("fused_adamw_step")
def fused_adamw_step(device: torch.device, dtype: torch.dtype) -> Honest:
    return _optimiser(device, dtype, torch.optim.AdamW, fused=True)


@add("training_step")
def training_step(device: torch.device, dtype: torch.dtype) -> Honest:
    model = _mlp(device, dtype)
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-4)

    def call(x: torch.Tensor) -> Any:
        optimiser.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimiser.step()
        return loss.detach()

    return Honest(call, (matrix(device, dtype),))


@add("lstm")
def lstm(device: torch.device, dtype: torch.dtype) -> Honest:
    model = torch.nn.LSTM(64, 64, batch_first=True).to(device=device, dtype=dtype)
    x = torch.randn(8, 32, 64, device=device).to(dtype)
    return Honest(lambda x: model(x)[0], (x,), lambda x: model(x)[0])


@add("autocast")
def autocast(device: torch.device, dtype: torch.dtype) -> Honest:
    def call(x: torch.Tensor) -> Any:
        with torch.autocast("cuda", torch.bfloat16):
            return x @ x

    return Honest(call, (matrix(device, dtype),), call)


@add("host_input")
def host_input(device: torch.device, dtype: torch.dtype) -> Honest:
    """Copy from pinned memory of the host."""
    host = matrix(torch.device("cpu"), dtype).pin_memory()
    return Honest(lambda x: x + host.to(device, non_blocking=True), (matrix(device, dtype),), None)


@add("library_fft")
def library_fft(device: torch.device, dtype: torch.dtype) -> Honest:
    def call(x: torch.Tensor) -> Any:
        return torch.fft.rfft(x.float()).abs()

    return Honest(call, (matrix(device, dtype),), call)


@add("library_cholesky")
def library_cholesky(device: torch.device, dtype: torch.dtype) -> Honest:
    def call(x: torch.Tensor) -> Any:
        wide = x.float()
        return torch.linalg.cholesky(wide @ wide.t() + 1e3 * torch.eye(len(x), device=device))

    return Honest(call, (matrix(device, dtype, 128, 128),), call)


@add("cross_entropy")
def cross_entropy(device: torch.device, dtype: torch.dtype) -> Honest:
    at = torch.randint(SIZE, (SIZE,), device=device)
    return Honest(F.cross_entropy, (matrix(device, dtype), at), F.cross_entropy)
