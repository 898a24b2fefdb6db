"""Softmax of scaled rows, in the form of KernelBench."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.scale = nn.Parameter(torch.rand(columns) + 0.5)

    def forward(self, x):
        return torch.softmax(x * self.scale, dim=-1)


ROWS, COLUMNS = 8192, 4000


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return [COLUMNS]
