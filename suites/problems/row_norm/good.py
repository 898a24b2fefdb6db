"""A norm reads the rows once and writes no squares."""

import torch


def custom_kernel(data):
    return torch.linalg.vector_norm(data, dim=-1).square()
