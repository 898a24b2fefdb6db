"""The call of test_one.py, checked and timed without the plugin."""

import torch
from triton.testing import do_bench

x = torch.randn(4096, 4096, device="cuda")
assert torch.equal(x * x, torch.square(x))
print(do_bench(lambda: x * x))
