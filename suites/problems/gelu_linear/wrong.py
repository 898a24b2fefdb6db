"""Forgets the bias."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, features, hidden):
        super().__init__()
        self.linear = nn.Linear(features, hidden, dtype=torch.bfloat16)

    def forward(self, x):
        return nn.functional.gelu(x @ self.linear.weight.t(), approximate="tanh")
