"""torch's scan, straight into the output."""

import torch
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    x, out = data
    return torch.cumsum(x, dim=0, out=out)
