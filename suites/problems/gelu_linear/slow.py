"""Multiplies row block by row block."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, features, hidden):
        super().__init__()
        self.linear = nn.Linear(features, hidden, dtype=torch.bfloat16)

    def forward(self, x):
        parts = [nn.functional.gelu(self.linear(part), approximate="tanh") for part in x.split(128)]
        return torch.cat(parts)
