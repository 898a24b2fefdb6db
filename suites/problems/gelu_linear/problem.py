"""GELU of a linear layer, in the form of KernelBench."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, features, hidden):
        super().__init__()
        self.linear = nn.Linear(features, hidden, dtype=torch.bfloat16)

    def forward(self, x):
        return nn.functional.gelu(self.linear(x), approximate="tanh")


ROWS, FEATURES, HIDDEN = 8192, 1024, 4096


def get_inputs():
    torch.manual_seed(1)
    return [torch.randn(ROWS, FEATURES, dtype=torch.bfloat16)]


def get_init_inputs():
    return [FEATURES, HIDDEN]
