"""Kept counters, one of several launches, weights, and the reader of each test, on a real GPU."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch
from msgspec.structs import replace

from pytest_gpuperf.metrics.combine import weights_used
from pytest_gpuperf.records.runs import load_run

if TYPE_CHECKING:
    from pytest_gpuperf.records import Profile

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU"),
    pytest.mark.skipif(
        not (shutil.which("ncu") or Path("/usr/local/cuda/bin/ncu").exists()), reason="needs ncu"
    ),
]

KERNELS = """
import torch, triton
import triton.language as tl

@triton.jit
def scale_kernel(o, i, n, B: tl.constexpr):
    k = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o + k, tl.load(i + k, k < n) * 2, k < n)

def chain(x, rows):
    y = torch.empty_like(x)
    scale_kernel[(triton.cdiv(x.numel(), 512),)](y, x, x.numel(), B=512)
    part = x[:rows]
    scale_kernel[(triton.cdiv(part.numel(), 512),)](y, part, part.numel(), B=512)
    return torch.mm(y, y)
"""
TEST = """
import pathlib
import pytest
import torch
from chain_kernels import chain

ROWS = int(pathlib.Path("rows.txt").read_text())

@pytest.mark.gpuperf(kernels="scale_kernel")
def test_chain(gpuperf):
    x = torch.randn(4096, 4096, device=gpuperf.device)
    gpuperf.profile(chain, x, ROWS)
    gpuperf.profile(chain, x, ROWS, launches="last", label="last")
    gpuperf.profile(chain, x, ROWS, launches=0, label="first")
"""
OTHER = """
import torch

def test_torch(gpuperf):
    x = torch.randn(1024, 1024, device=gpuperf.device)
    gpuperf.profile(lambda: torch.softmax(torch.mm(x, x), 1))
"""


GRAPH = """
import torch

def test_graph(gpuperf):
    x = torch.randn(1024, 1024, device=gpuperf.device)
    y = torch.empty_like(x)
    torch.square(x, out=y)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        torch.square(x, out=y)
        torch.exp(x, out=y)
    gpuperf.profile(graph.replay)
"""


@pytest.fixture
def project(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> pytest.Pytester:
    monkeypatch.delenv("CI", raising=False)
    # ncu writes its rules, which are Python files, into the home folder; pytester makes that the project.
    monkeypatch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
    pytester.makepyfile(test_k=TEST, test_other=OTHER, chain_kernels=KERNELS)
    (pytester.path / "rows.txt").write_text("1024")
    return pytester


def run(project: pytest.Pytester, counters: str = "auto", **outcomes: int) -> tuple[dict[str, Profile], bool]:
    """Return the profiles of a run by test and label, and True if ncu was started."""
    before = set((project.path / ".gpuperf" / "runs").glob("*"))
    options = ("--gpuperf", f"--gpuperf-counters={counters}", "-p", "no:cacheprovider")
    project.runpytest_subprocess(*options).assert_outcomes(**outcomes)
    (folder,) = set((project.path / ".gpuperf" / "runs").glob("*")) - before
    profiles = {
        f"{test.nodeid.partition('::')[2]} {label}": measured.profile
        for test in load_run(folder / "run.json").tests
        for label, measured in test.measurements.items()
        if measured.profile is not None
    }
    return profiles, (folder / "ncu").exists()


@pytest.mark.parametrize("counters", ["ncu", "auto"])
def test_second_run_reuses_counters(project: pytest.Pytester, counters: str) -> None:
    first, ran = run(project, counters, passed=2)
    assert ran is (counters == "ncu")
    assert not any(profile.unavailable or profile.read_at for profile in first.values())
    second, ran = run(project, counters, passed=2)
    assert not ran
    assert {name: replace(profile, read_at="") for name, profile in second.items()} == first
    assert all(profile.read_at for profile in second.values())

    (project.path / "chain_kernels.py").write_text(KERNELS.replace("* 2", "* 3"))
    third, ran = run(project, counters, passed=2)
    assert ran is (counters == "ncu")
    assert not any(profile.read_at for profile in third.values())


def test_other_launches_of_the_same_code_are_detected(project: pytest.Pytester) -> None:
    for counters in ("ncu", "auto"):
        run(project, counters, passed=2)
    (project.path / "rows.txt").write_text("2048")
    # CUPTI reads them at once, and ncu in the next run.
    found, _ = run(project, passed=2)
    assert [kernel.grid for kernel in found["test_chain last"].kernels] == [(16384, 1, 1)]
    run(project, "ncu", passed=1, failed=1)
    found, ran = run(project, "ncu", passed=2)
    assert ran
    assert not found["test_chain main"].read_at


def test_ncu_reads_only_the_test_that_cupti_cannot_read(project: pytest.Pytester) -> None:
    project.makepyfile(test_graph=GRAPH)
    found, ran = run(project, passed=3)
    assert not ran
    assert "CUDA graph" in found["test_graph main"].unavailable
    found, ran = run(project, passed=3)
    assert ran
    sources = {name: profile.source for name, profile in found.items()}
    assert (sources["test_graph main"], sources["test_chain main"], sources["test_torch main"]) == (
        "ncu",
        "cupti",
        "cupti",
    )
    assert found["test_graph main"].combined["kernels"] == 2
    found, ran = run(project, passed=3)
    assert not ran
    assert all(profile.read_at for profile in found.values())


def test_kept_launches_combine_by_their_weights(
    project: pytest.Pytester,
) -> None:
    found, _ = run(project, passed=2)
    both, last, first = (found[f"test_chain {label}"] for label in ("main", "last", "first"))
    grids = [[kernel.grid for kernel in profile.kernels] for profile in (both, first, last)]
    assert grids == [[(32768, 1, 1), (8192, 1, 1)], [(32768, 1, 1)], [(8192, 1, 1)]]
    used = weights_used(both.kernels, both.combined)
    assert {"sm_throughput", "achieved_occupancy", "dram_throughput"} <= set(used["cycles"])
    assert "l2_hit_rate" in used["sectors"]
    assert "stall.long_scoreboard" in used["instructions * warp_cycles_per_instruction"]
    assert used.get("duration", []) == []
