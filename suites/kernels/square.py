"""Square of a matrix in torch.compile, Triton and CUDA C++."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl

from suites.kernels.inline import compiled

if TYPE_CHECKING:
    from collections.abc import Callable

CUDA_DECLARATION = "torch::Tensor square_matrix(const torch::Tensor& input);"
CUDA_SOURCE = r"""
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/types.h>

__global__ void square_matrix_kernel(const float* __restrict__ input, float* __restrict__ output,
                                     int64_t elements) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < elements) {
    output[i] = input[i] * input[i];
  }
}

torch::Tensor square_matrix(const torch::Tensor& input) {
  TORCH_CHECK(input.is_cuda() && input.is_contiguous() && input.scalar_type() == torch::kFloat32,
              "square_matrix takes a contiguous float32 tensor on a GPU");
  const c10::cuda::CUDAGuard guard(input.device());
  auto output = torch::empty_like(input);
  const int64_t elements = input.numel();
  if (elements > 0) {
    constexpr int threads = 256;
    const auto blocks = static_cast<unsigned int>((elements + threads - 1) / threads);
    square_matrix_kernel<<<blocks, threads, 0, c10::cuda::getCurrentCUDAStream()>>>(
        input.const_data_ptr<float>(), output.mutable_data_ptr<float>(), elements);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  }
  return output;
}
"""
"""Source that launches on torch's current stream, since a CUDA graph would not capture another stream."""

FIXED_BLOCK = 1024
"""Block size with two loads of 16 bytes a thread."""


@triton.jit  # type: ignore[untyped-decorator]
def square_kernel(output_ptr, input_ptr, output_row_stride, input_row_stride, columns, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    """Square one row in each program."""
    row = tl.program_id(0).to(tl.int64)
    offsets = tl.arange(0, BLOCK)
    inside = offsets < columns
    values = tl.load(input_ptr + row * input_row_stride + offsets, mask=inside)
    tl.store(output_ptr + row * output_row_stride + offsets, values * values, mask=inside)


@triton.jit  # type: ignore[untyped-decorator]
def square_blocks_kernel(  # type: ignore[no-untyped-def]
    output_ptr,
    input_ptr,
    output_row_stride,
    input_row_stride,
    columns,
    BLOCK: tl.constexpr,
):
    """Square BLOCK columns of one row in each program."""
    blocks = tl.cdiv(columns, BLOCK)
    row = (tl.program_id(0) // blocks).to(tl.int64)
    offsets = tl.program_id(0) % blocks * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < columns
    values = tl.load(input_ptr + row * input_row_stride + offsets, mask=inside)
    tl.store(output_ptr + row * output_row_stride + offsets, values * values, mask=inside)


def block_of(columns: int) -> tuple[int, int]:
    """Return block size and number of warps for a row: the next power of two, and at least 4 warps."""
    block = triton.next_power_of_2(columns)
    return block, 4 if block < 2048 else 8 if block < 4096 else 16


def square_triton(x: torch.Tensor) -> torch.Tensor:
    """Square a matrix whose rows are contiguous, one program a row."""
    rows, columns = x.shape
    output = torch.empty_like(x)
    block, num_warps = block_of(columns)
    square_kernel[(rows,)](
        output, x, output.stride(0), x.stride(0), columns, BLOCK=block, num_warps=num_warps
    )
    return output


def square_fixed_block(x: torch.Tensor) -> torch.Tensor:
    """Square a matrix whose rows are contiguous, with a program for each block of FIXED_BLOCK in a row."""
    rows, columns = x.shape
    output = torch.empty_like(x)
    square_blocks_kernel[(rows * triton.cdiv(columns, FIXED_BLOCK),)](
        output, x, output.stride(0), x.stride(0), columns, BLOCK=FIXED_BLOCK, num_warps=4
    )
    return output


def square_compiled(x: torch.Tensor) -> torch.Tensor:
    """Square a matrix by torch.compile, with a kernel for each shape."""
    return _compiled_square()(x)


def square_cuda(x: torch.Tensor) -> torch.Tensor:
    """Square a contiguous float32 tensor, one thread an element."""
    squared: torch.Tensor = compiled(CUDA_DECLARATION, CUDA_SOURCE)(x)
    return squared


@cache
def _compiled_square() -> Callable[[torch.Tensor], torch.Tensor]:
    # Without dynamic=False the kernel would depend on the shapes compiled before. With autotuning it would
    # differ between processes: on an H200 two block sizes are nearly as fast when tried, but one takes 25 %
    # longer afterwards.
    return torch.compile(torch.square, dynamic=False, options={"triton.autotune_pointwise": False})
