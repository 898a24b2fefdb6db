"""Tests that break the GPU or their process cost only themselves."""

from __future__ import annotations

import pytest

from pytest_gpuperf.records.run_store import load_run

SUITE = """
import ctypes, os
import torch, triton
import triton.language as tl

@triton.jit
def scale_kernel(out, x, n, far, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i + far, tl.load(x + i, mask=i < n, other=0.0) * 2, mask=i < n)

def scale(x, far=0):
    out = torch.empty_like(x)
    scale_kernel[(triton.cdiv(x.numel(), 1024),)](out, x, x.numel(), far, BLOCK=1024)
    return out

def data(gpuperf):
    return torch.ones(1 << 22, device=gpuperf.device)

def test_first(gpuperf):
    gpuperf.time(scale, data(gpuperf))

def test_illegal_access(gpuperf):
    gpuperf.time(scale, data(gpuperf), 10**13)

def test_second(gpuperf):
    gpuperf.time(torch.relu, data(gpuperf))

def test_assertion(gpuperf):
    x = data(gpuperf)
    gpuperf.time(lambda: x[torch.tensor([10**9], device="cuda")])

def test_after_its_last_call(gpuperf):
    x = data(gpuperf)
    gpuperf.time(scale, x)
    scale(x, 10**13)

def test_segmentation_fault():
    ctypes.string_at(0)

def test_abort():
    os.abort()

def test_endless_kernel(gpuperf):
    gpuperf.time(lambda: torch.cuda._sleep(10**16))

def test_last(gpuperf):
    gpuperf.time(torch.neg, data(gpuperf))
"""
ENDINGS = {
    "illegal_access": "broke the GPU: CUDA error: an illegal memory access was encountered",
    "assertion": "broke the GPU: CUDA error: device-side assert triggered",
    "after_its_last_call": "broke the GPU: CUDA error: an illegal memory access was encountered",
    "segmentation_fault": "ended its process by signal 11 (Segmentation fault)",
    "abort": "ended its process by signal 6 (Aborted)",
    "endless_kernel": "took more than 15 s (--gpuperf-timeout)",
}


@pytest.mark.parametrize("counters", ["off", "auto"])
def test_broken_tests_cost_only_themselves(pytester: pytest.Pytester, counters: str) -> None:
    pytest.importorskip("xdist")
    pytester.makepyfile(test_k=SUITE)
    result = pytester.runpytest_subprocess(
        "--gpuperf", f"--gpuperf-counters={counters}", "--gpuperf-timeout=15"
    )
    result.assert_outcomes(failed=6, passed=3)
    for name, how in ENDINGS.items():
        result.stdout.fnmatch_lines(
            [
                f"gpuperf: error: test_k.py::test_{name} {how}; the tests after it ran in a new process",
                f"*pytest --gpuperf --gpuperf-sanitize=memcheck test_k.py::test_{name}",
            ]
        )
    (path,) = pytester.path.glob(".gpuperf/runs/*/run.json")
    run = load_run(path)
    assert run.complete
    assert [test.nodeid for test in run.tests if not test.failure] == [
        f"test_k.py::test_{name}" for name in ("first", "second", "last")
    ]
