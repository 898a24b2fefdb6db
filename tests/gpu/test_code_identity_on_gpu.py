"""Hashes of launched code on a real GPU: Triton, the runtime compiler's, and those of a library."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest
import torch

from pytest_gpuperf.features.static import nvcc
from pytest_gpuperf.measure.first_calls import CodeReader
from pytest_gpuperf.records.call import Call

if TYPE_CHECKING:
    from pathlib import Path

HEAD = """
import msgspec, sys, torch
from pytest_gpuperf.measure.first_calls import CodeReader
from pytest_gpuperf.records.call import Call

def show(fn, *args):
    code = CodeReader("1").read(Call("test_k.py::test_k", "main", fn, args))
    sys.stdout.write(msgspec.json.encode(code).decode())
"""
TRITON = (
    HEAD
    + """
import triton, triton.language as tl

@triton.jit
def scale(x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, tl.load(x + at, at < n) * FACTOR, at < n)

def run(x):
    # Two variants of one name are in the process, and one of them is asked for.
    if not seen:
        seen.append(scale[(x.numel() // 256,)](x, x.numel(), BLOCK=256))
    scale[(x.numel() // 512,)](x, x.numel(), BLOCK=512)

seen = []
show(run, torch.ones(1 << 20, device="cuda"))
"""
)
INLINE = (
    HEAD
    + """
from torch.utils.cpp_extension import load_inline

cuda = '''
__global__ void scale(float* x) { x[blockIdx.x * 256 + threadIdx.x] *= FACTORf; }
void run(torch::Tensor x) { scale<<<x.numel() / 256, 256>>>(x.data_ptr<float>()); }
'''
made = load_inline("scale_FACTOR".replace(".", "_"), "void run(torch::Tensor x);", cuda, functions=["run"])
show(made.run, torch.ones(1 << 20, device="cuda"))
"""
)
PRODUCT = (
    HEAD + "\na = torch.ones(2048, 2048, device='cuda', dtype=torch.float16)\nshow(torch.matmul, a, a)\n"
)


def code_in_fresh_process(folder: Path, script: str, factor: str = "2.0") -> list[dict[str, object]]:
    path = folder / f"script_{factor}.py"
    path.write_text(script.replace("FACTOR", factor))
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout[done.stdout.index("{") :])
    assert "unavailable" not in found, found
    kernels: list[dict[str, object]] = found["kernels"]
    assert all(kernel.get("code") for kernel in kernels), kernels
    return kernels


@pytest.mark.parametrize(
    "script",
    [TRITON, pytest.param(INLINE, marks=pytest.mark.skipif(nvcc.find() is None, reason="needs nvcc"))],
    ids=["triton", "load_inline"],
)
def test_hash_changes_with_one_constant_only(tmp_path: Path, script: str) -> None:
    first, again = (code_in_fresh_process(tmp_path, script) for _ in range(2))
    [changed] = code_in_fresh_process(tmp_path, script, "3.0")
    assert first == again
    assert [kernel["name"] for kernel in first] == ["scale"]
    assert first[0]["code"] != changed["code"]
    assert first[0]["grid"] == changed["grid"]


def test_library_kernel_has_one_hash_in_two_processes(tmp_path: Path) -> None:
    first, again = (code_in_fresh_process(tmp_path, PRODUCT) for _ in range(2))
    assert first == again


def test_reading_code_again_costs_little() -> None:
    a = torch.ones(2048, 2048, device="cuda", dtype=torch.float16)
    reader, call = CodeReader("1"), Call("test_k.py::test_k", "main", torch.matmul, (a, a))
    first = reader.read(call)
    begin = time.perf_counter()
    again = reader.read(call)
    seconds = time.perf_counter() - begin
    sys.stderr.write(f"code read again in {seconds:.3f} s\n")
    assert first == again
    assert seconds < 0.5
