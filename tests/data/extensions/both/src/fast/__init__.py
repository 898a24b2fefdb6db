import torch

from fast._steps import launch


def steps(x):
    y = torch.empty_like(x)
    launch(y.data_ptr(), x.data_ptr(), x.numel(), torch.cuda.current_stream().cuda_stream)
    return y
