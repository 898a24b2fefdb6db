"""Computes in double precision."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.scale = nn.Parameter(torch.rand(columns) + 0.5)

    def forward(self, x):
        return torch.softmax(x.double() * self.scale, dim=-1).float()
