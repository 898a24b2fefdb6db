"""Addition in place in CUDA C++, as an extension of torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from suites.kernels.inline import compiled

if TYPE_CHECKING:
    import torch

_DECLARATION = "void add_in_place(torch::Tensor x, const torch::Tensor& y, double scale);"
_SOURCE = r"""
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/types.h>

__global__ void add_in_place_kernel(float* __restrict__ x, const float* __restrict__ y, float scale,
                                    int64_t elements) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < elements) {
    x[i] += scale * y[i];
  }
}

void add_in_place(torch::Tensor x, const torch::Tensor& y, double scale) {
  TORCH_CHECK(x.is_cuda() && x.is_contiguous() && y.is_contiguous() && x.sizes() == y.sizes(),
              "add_in_place takes two contiguous tensors of one shape on a GPU");
  const c10::cuda::CUDAGuard guard(x.device());
  constexpr int threads = 256;
  const auto blocks = static_cast<unsigned int>((x.numel() + threads - 1) / threads);
  add_in_place_kernel<<<blocks, threads, 0, c10::cuda::getCurrentCUDAStream()>>>(
      x.mutable_data_ptr<float>(), y.const_data_ptr<float>(), static_cast<float>(scale), x.numel());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}
"""


def add_in_place(x: torch.Tensor, y: torch.Tensor, scale: float) -> None:
    """Add `scale * y` to x."""
    compiled(_DECLARATION, _SOURCE)(x, y, scale)
