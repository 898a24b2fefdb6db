"""Further kernels with a dose, as projects have them: products of matrices, attention, layers, an extension.

Their work is a number of blocks of the inner dimension, or of equal layers one after the other. Import this
module only when needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional

from benchmarks.gate_power.kernels import DOSES_PERMILLE, KERNELS, Dosed

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.gate_power.kernels import Build, Call

INNER = 64
"""Elements of a block of the inner dimension."""
EXPERTS, CHOSEN = 8, 2
"""Experts of a layer, and those of a token."""
EXTENSION = """
torch::Tensor scaled(torch::Tensor x, int64_t count) {
  for (int64_t at = 0; at < count; ++at) x = x.mul(0.999).add(0.5);
  return x;
}
"""


def build_again(name: str, permille: int, multiprocessors: int) -> Call:
    """Build a kernel of `ALL` with a dose on tensors of its own."""
    (kernel,) = (one for one in ALL if one.name == name)
    return kernel.build(multiprocessors, kernel.work(max(DOSES_PERMILLE)))(kernel.work(permille))


def modes() -> dict[str, str]:
    """Return the timing mode of each kernel."""
    return {kernel.name: kernel.mode for kernel in ALL}


def _product(rows: int, columns: int, dtype: torch.dtype) -> Build:
    def build(_multiprocessors: int, most: int) -> Callable[[int], Call]:
        a, b = (
            torch.randn(*size, device="cuda").to(dtype)
            for size in ((rows, most * INNER), (most * INNER, columns))
        )
        return lambda count: lambda: a[:, : count * INNER] @ b[: count * INNER]

    return build


def _attention(multiprocessors: int, most: int) -> Callable[[int], Call]:
    block, width = 128, 64
    shapes = ((block, width), (most * block, width), (most * block, width))
    query, key, value = (
        torch.randn(1, multiprocessors, *shape, device="cuda", dtype=torch.bfloat16) for shape in shapes
    )
    return lambda count: (
        lambda: functional.scaled_dot_product_attention(
            query, key[:, :, : count * block], value[:, :, : count * block]
        )
    )


def _layers(rows: int, width: int, layer: Callable[..., torch.Tensor], *sizes: tuple[int, ...]) -> Build:
    """Repeat a layer on its own output, with its input added and normalised; all have the same weights."""

    def build(_multiprocessors: int, _most: int) -> Callable[[int], Call]:
        x = torch.randn(rows, width, device="cuda", dtype=torch.bfloat16)
        weights = [torch.randn(*size, device="cuda", dtype=torch.bfloat16) / width**0.5 for size in sizes]

        def make(count: int) -> Call:
            def call() -> Any:
                y = x
                for _ in range(count):
                    y = functional.layer_norm(y + layer(y, *weights), (width,))
                return y

            return call

        return make

    return build


def _perceptron(x: torch.Tensor, up: torch.Tensor, down: torch.Tensor) -> torch.Tensor:
    return functional.gelu(x @ up) @ down


def _experts(x: torch.Tensor, router: torch.Tensor, up: torch.Tensor, down: torch.Tensor) -> torch.Tensor:
    """Send each token to its experts, which have a row for each token, most of them padding."""
    tokens, width = x.shape
    share, expert = torch.topk(torch.softmax((x @ router).float(), -1), CHOSEN)
    flat = expert.flatten()
    before = functional.one_hot(flat, EXPERTS).cumsum(0).gather(1, flat[:, None]).squeeze(1) - 1
    rows = flat * tokens + before
    padded = x.new_zeros(EXPERTS * tokens, width)
    padded[rows] = x.repeat_interleave(CHOSEN, 0)
    inner = functional.silu(padded.view(EXPERTS, tokens, width) @ up) @ down
    found = inner.view(EXPERTS * tokens, width)[rows].view(tokens, CHOSEN, width)
    return (found * share.to(x.dtype)[:, :, None]).sum(1)


def _extension(_multiprocessors: int, _most: int) -> Callable[[int], Call]:
    from torch.utils.cpp_extension import load_inline

    made = load_inline("gate_power_scaled", EXTENSION, functions=["scaled"])  # type: ignore[no-untyped-call]
    x = torch.randn(1 << 20, device="cuda")
    return lambda count: lambda: made.scaled(x, count)


LAYERS = (
    Dosed("GEMM bf16 512", "blocks", 200, _product(512, 512, torch.bfloat16)),
    Dosed("GEMM bf16 1024", "blocks", 200, _product(1024, 1024, torch.bfloat16)),
    Dosed("GEMM bf16 2048", "blocks", 200, _product(2048, 2048, torch.bfloat16)),
    Dosed("GEMM bf16 4096", "blocks", 200, _product(4096, 4096, torch.bfloat16)),
    Dosed("GEMM fp16 16 rows", "blocks", 200, _product(16, 4096, torch.float16)),
    Dosed("GEMM fp32 1024", "blocks", 200, _product(1024, 1024, torch.float32)),
    Dosed("attention, long keys", "blocks", 200, _attention),
    Dosed("eager MLP", "layers", 200, _layers(512, 256, _perceptron, (256, 1024), (1024, 256))),
    Dosed(
        "padded MoE",
        "layers",
        200,
        _layers(512, 256, _experts, (256, EXPERTS), (EXPERTS, 256, 512), (EXPERTS, 512, 256)),
    ),
    Dosed("C++ extension", "operations", 200, _extension),
)
ALL = (*KERNELS, *LAYERS)
