"""The GELU in the epilogue of the matrix product."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, features, hidden):
        super().__init__()
        self.linear = nn.Linear(features, hidden, dtype=torch.bfloat16)

    def forward(self, x):
        return torch._addmm_activation(self.linear.bias, x, self.linear.weight.t(), use_gelu=True)
