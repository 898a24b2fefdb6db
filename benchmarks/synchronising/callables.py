"""Callables that synchronise the host, with 5 % more work on demand.

If the time follows a number of rows, elements or parameters, there are 5 % more of them. Matrix products and
sorts of rows work in whole tiles, so there an arithmetic kernel of 5 % of the call's time follows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from liger_kernel.transformers.functional import liger_cross_entropy, liger_fused_linear_cross_entropy
from torch.nn import functional

from benchmarks.gate_power.triton_kernels import arithmetic_kernel

Call: TypeAlias = Callable[[], Any]

DOSES_PERMILLE = (0, 50)
_SEED = 7
_BLOCK = 256
_ITERATIONS_PER_US = 69
"""Iterations of `arithmetic_kernel` in a microsecond, on an H200."""
_FUSED_LINEAR_US = 990
_TOP_P_US = 258
_EXPERTS_US = 450
"""Kernel times on an H200, of which an added kernel takes 5 %."""


def build_all() -> dict[tuple[str, int], Call]:
    """Build every callable without and with more work (in ‰) on the current device."""
    torch.manual_seed(_SEED)
    return {(name, more): build(more) for name, build in BUILDERS.items() for more in DOSES_PERMILLE}


def _more(count: int, permille: int) -> int:
    extra, rest = divmod(count * permille, 1000)
    if rest:
        raise ValueError(f"{count} and {permille} ‰ more is not a whole number")
    return count + extra


def _cross_entropy(permille: int) -> Call:
    rows, vocabulary = _more(4000, permille), 32768
    logits = torch.randn(rows, vocabulary, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    target = torch.randint(vocabulary, (rows,), device="cuda")
    return lambda: liger_cross_entropy(logits, target)


def _fused_linear_cross_entropy(permille: int) -> Call:
    rows, hidden, vocabulary = 2048, 2048, 16384
    x = torch.randn(rows, hidden, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    weight = (torch.randn(vocabulary, hidden, device="cuda") / 45).to(torch.bfloat16).requires_grad_()
    target = torch.randint(vocabulary, (rows,), device="cuda")
    return _with_kernel(
        lambda: liger_fused_linear_cross_entropy(x, weight, target), _FUSED_LINEAR_US, permille
    )


def _nonzero(permille: int) -> Call:
    x = torch.rand(_more(40_000_000, permille), device="cuda") > 0.9
    return lambda: torch.nonzero(x)


def _top_p(permille: int) -> Call:
    logits = 3 * torch.randn(40, 32_000, device="cuda")

    def sample() -> list[list[int]]:
        probabilities, order = torch.softmax(logits, -1).sort(-1, descending=True)
        kept = probabilities.cumsum(-1) - probabilities < 0.9
        chosen = torch.multinomial(probabilities * kept, 1)
        tokens: list[list[int]] = order.gather(-1, chosen).tolist()
        return tokens

    return _with_kernel(sample, _TOP_P_US, permille)


def _experts(permille: int) -> Call:
    tokens, hidden, inner, experts = 4096, 1024, 2048, 8
    x = torch.randn(tokens, hidden, device="cuda", dtype=torch.bfloat16)
    router = torch.randn(hidden, experts, device="cuda", dtype=torch.bfloat16) / 32
    up = torch.randn(experts, hidden, inner, device="cuda", dtype=torch.bfloat16) / 32
    down = torch.randn(experts, inner, hidden, device="cuda", dtype=torch.bfloat16) / 45

    def layer() -> torch.Tensor:
        weights, chosen = (x @ router).softmax(-1).topk(2, -1)
        out = torch.zeros_like(x)
        for expert in range(experts):
            row, slot = torch.where(chosen == expert)
            y = functional.silu(x[row] @ up[expert]) @ down[expert]
            out.index_add_(0, row, y * weights[row, slot, None])
        return out

    return _with_kernel(layer, _EXPERTS_US, permille)


def _optimizer_step(permille: int) -> Call:
    # 15 chunks of 65,536 elements each, as the fused kernels divide them, and 15.75 with 5 % more.
    elements = _more(983_040, permille)
    parameters = [torch.randn(elements, device="cuda", requires_grad=True) for _ in range(40)]
    for parameter in parameters:
        parameter.grad = torch.randn_like(parameter)
    optimizer = torch.optim.AdamW(parameters, lr=1e-6)

    def step() -> float:
        norm = torch.nn.utils.clip_grad_norm_(parameters, 1e9)
        optimizer.step()
        return norm.item()

    return step


def _with_kernel(call: Call, call_us: float, permille: int) -> Call:
    """Return the call followed by an arithmetic kernel of `permille` of `call_us`, if that is not 0."""
    if not permille:
        return call
    programs = 8 * torch.cuda.get_device_properties(torch.cuda.current_device()).multi_processor_count
    out = torch.empty(programs * _BLOCK, device="cuda")
    iterations = round(call_us * permille / 1000 * _ITERATIONS_PER_US / 4) * 4

    def both() -> Any:
        value = call()
        arithmetic_kernel[(programs,)](out, iterations, BLOCK=_BLOCK, num_warps=4)
        return value

    return both


BUILDERS: dict[str, Callable[[int], Call]] = {
    "Liger cross_entropy": _cross_entropy,
    "Liger fused_linear_cross_entropy": _fused_linear_cross_entropy,
    "torch.nonzero": _nonzero,
    "top-p sampling": _top_p,
    "eager MoE layer": _experts,
    "AdamW step with clipping": _optimizer_step,
}
"""Makers of the callables by name; each takes the added work in ‰."""
