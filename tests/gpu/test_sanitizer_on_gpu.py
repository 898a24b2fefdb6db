"""Planted errors under compute-sanitizer on a real GPU: each belongs to its test only."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.features.sanitizer.tool import find_sanitizer
from pytest_gpuperf.records.run_store import load_run

if TYPE_CHECKING:
    from pytest_gpuperf.records import SanitizerHit, SanitizerResult


def why_not() -> str:
    if not torch.cuda.is_available():
        return "needs a CUDA GPU"
    try:
        find_sanitizer()
    except GpuperfError as error:
        return str(error)
    return ""


WHY_NOT = why_not()
pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)

# torch includes NVRTC, so the test needs no compiler.
needs_nvrtc = pytest.mark.skipif(
    not hasattr(torch.cuda, "_compile_kernel"), reason="needs torch.cuda._compile_kernel (torch 2.8)"
)

TRITON = """
import torch, triton
import triton.language as tl

@triton.jit
def scale_kernel(out, x, n, BLOCK: tl.constexpr, MASKED: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n, other=0.0)
    if MASKED:
        tl.store(out + i, v * 2, mask=i < n)
    else:
        tl.store(out + i, v * 2)  # planted

def scale(x, masked=True):
    out = torch.empty_like(x)
    scale_kernel[(triton.cdiv(x.numel(), 128),)](out, x, x.numel(), BLOCK=128, MASKED=masked)
    return out

def twice(x):
    return x * 2

def test_before(gpuperf):
    gpuperf.check(scale, torch.ones(1000, device=gpuperf.device), expected=twice)

def test_after(gpuperf):
    gpuperf.check(scale, torch.ones(1000, device=gpuperf.device), expected=twice)
"""
CUDA = """
import torch

def compiled(name, body):
    source = f'extern "C" __global__ void {name}(const float* x, float* out) {{ {body} }}'
    return torch.cuda._compile_kernel(source, name)

def run(kernel, x):
    out = torch.empty_like(x)
    kernel(grid=(2, 1, 1), block=(256, 1, 1), args=[x, out])
    return out

def copy(x):
    return run(compiled("copy_kernel", "out[threadIdx.x] = x[threadIdx.x];"), x)

def test_before(gpuperf):
    gpuperf.check(copy, torch.ones(256, device=gpuperf.device), expected=torch.clone)

def test_after(gpuperf):
    gpuperf.check(copy, torch.ones(256, device=gpuperf.device), expected=torch.clone)
"""


TRAP = """
def test_trap(gpuperf):
    source = 'extern "C" __global__ void trap_kernel() { asm("trap;"); }'
    kernel = torch.cuda._compile_kernel(source, "trap_kernel")
    gpuperf.time(lambda: kernel(grid=(1, 1, 1), block=(32, 1, 1), args=[]))
"""


def run(
    pytester: pytest.Pytester, tool: str, project: str, planted: str
) -> dict[str, SanitizerResult | None]:
    """Return the errors of planted tests, which are between clean tests."""
    before, after, rest = project.partition("def test_after")
    pytester.makepyfile(test_k=f"{before}{planted}\n{after}{rest}")
    result = pytester.runpytest_subprocess("--gpuperf", f"--gpuperf-sanitize={tool}", "-rA", timeout=240)
    assert not [line for line in result.outlines if line.startswith("gpuperf: error:")]
    (path,) = (pytester.path / ".gpuperf" / "runs").glob("*/run.json")
    found = {test.nodeid.partition("::")[2]: test.sanitizer for test in load_run(path).tests}
    for name in ("test_before", "test_after"):
        result.stdout.fnmatch_lines([f"PASSED test_k.py::{name}"])
        clean = found.pop(name)
        assert clean is not None
        assert (clean.tool, clean.count) == (tool, 0)
    return found


def hit_of(result: SanitizerResult | None) -> SanitizerHit:
    assert result is not None
    assert result.count > 0
    return result.hits[0]


def test_bad_write_and_trap_belong_to_their_tests(pytester: pytest.Pytester) -> None:
    planted = """
def test_out_of_bounds(gpuperf):
    x = torch.ones(100, device=gpuperf.device)
    gpuperf.time(scale, x, label="right")
    gpuperf.time(scale, x, masked=False, label="wrong")
"""
    trap = hasattr(torch.cuda, "_compile_kernel")
    found = run(pytester, "memcheck", TRITON, planted + (TRAP if trap else ""))
    hit = hit_of(found["test_out_of_bounds"])
    assert hit.kind.startswith("Invalid __global__ write of size ")
    assert (hit.kernel, hit.label, hit.block) == ("scale_kernel", "wrong", (0, 0, 0))
    assert hit.places[0].startswith("test_k.py:")
    assert 96 <= hit.threads[0][0] < 128
    assert hit.address.startswith("0x")
    assert "out of bounds" in hit.detail
    assert "nearest allocation" in hit.detail
    if trap:
        processes = list(pytester.path.glob(".gpuperf/runs/*/sanitizer/*"))
        assert len(processes) == 2
        assert "test_trap" in found


@needs_nvrtc
def test_race_is_found_and_barrier_is_clean(pytester: pytest.Pytester) -> None:
    body = "__shared__ float tile[256]; int t = threadIdx.x; tile[t] = x[t]; BARRIER out[t] = tile[255 - t];"
    planted = f"""
BODY = "{body}"

def test_race(gpuperf):
    kernel = compiled("racing_kernel", BODY.replace("BARRIER", ""))
    gpuperf.time(run, kernel, torch.ones(256, device=gpuperf.device))

def test_barrier(gpuperf):
    kernel = compiled("waiting_kernel", BODY.replace("BARRIER", "__syncthreads();"))
    gpuperf.time(run, kernel, torch.ones(256, device=gpuperf.device))
"""
    found = run(pytester, "racecheck", CUDA, planted)
    hit = hit_of(found["test_race"])
    assert "hazard in __shared__ memory" in hit.kind
    assert hit.kernel.startswith("racing_kernel")
    assert len(hit.threads) == 2
    assert hit.address.startswith("0x")
    barrier = found["test_barrier"]
    assert barrier is not None
    assert barrier.count == 0


def test_uninitialised_read_is_found(pytester: pytest.Pytester) -> None:
    planted = """
def test_unwritten(gpuperf):
    gpuperf.time(scale, torch.empty(1000, device=gpuperf.device))
"""
    hit = hit_of(run(pytester, "initcheck", TRITON, planted)["test_unwritten"])
    assert hit.kind.startswith("Uninitialized __global__ memory read of size ")
    assert hit.kernel == "scale_kernel"
    assert hit.address.startswith("0x")


@needs_nvrtc
def test_a_barrier_that_half_a_warp_reaches_is_found(pytester: pytest.Pytester) -> None:
    planted = """
def test_divergent(gpuperf):
    kernel = compiled("divergent_kernel", "if (threadIdx.x % 2) __syncthreads(); out[threadIdx.x] = 1;")
    gpuperf.time(run, kernel, torch.ones(256, device=gpuperf.device))
"""
    hit = hit_of(run(pytester, "synccheck", CUDA, planted)["test_divergent"])
    assert hit.kind.startswith("Barrier error detected")
    assert hit.kernel.startswith("divergent_kernel")
