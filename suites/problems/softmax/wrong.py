"""Leaves the scale of the last column out."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.scale = nn.Parameter(torch.rand(columns) + 0.5)

    def forward(self, x):
        scaled = x.clone()
        scaled[:, :-1] *= self.scale[:-1]
        return torch.softmax(scaled, dim=-1)
