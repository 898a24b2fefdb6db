"""linkedin/Liger-Kernel#815: LayerNorm's backward pass adds rows atomically from 0.6.1 on."""

from __future__ import annotations

import pytest
import torch
from liger_kernel.transformers.functional import liger_layer_norm


def gradients(fn):
    def backward(gradient, x, weight, bias):
        inputs = [one.detach().requires_grad_() for one in (x, weight, bias)]
        return torch.autograd.grad(fn(*inputs), inputs, gradient)

    return backward


def exact(gradient, x, weight, bias):
    def fn(x, weight, bias):
        return torch.nn.functional.layer_norm(x, x.shape[-1:], weight, bias, 1e-6)

    return gradients(fn)(*(one.double() for one in (gradient, x, weight, bias)))


@pytest.mark.parametrize("columns", [1024, 4096, 8192])
def test_layer_norm_backward(gpuperf, columns):
    x, gradient = torch.randn(2, 8192, columns, device=gpuperf.device)
    weight, bias = torch.randn(2, columns, device=gpuperf.device)

    gpuperf(
        gradients(lambda x, weight, bias: liger_layer_norm(x, weight, bias, 1e-6)),
        gradient, x, weight, bias, expected=exact, rtol=1e-3, atol=5e-3,
    )  # fmt: skip
