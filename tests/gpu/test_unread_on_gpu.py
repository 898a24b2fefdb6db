"""Calls that only ncu can read, one of several launches, and weights, on a real GPU."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_gpuperf.features.ncu.common_weights import weights_used
from pytest_gpuperf.records.run_store import load_run

if TYPE_CHECKING:
    from pytest_gpuperf.records import Profile

pytestmark = [
    pytest.mark.skipif(
        not (shutil.which("ncu") or Path("/usr/local/cuda/bin/ncu").exists()), reason="needs ncu"
    )
]
TEST = """
import torch

def captured(*steps):
    for step in steps:
        step()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for step in steps:
            step()
    return graph.replay

def test_graphs(gpuperf):
    x = torch.randn(1024, 1024, device=gpuperf.device)
    y = torch.empty_like(x)
    square, exp = (lambda: torch.square(x, out=y)), (lambda: torch.exp(x, out=y))
    gpuperf.profile(captured(square), label="one")
    gpuperf.profile(captured(square, exp), label="two")
    gpuperf.profile(square, label="plain")

def test_compiled(gpuperf):
    x = torch.randn(4096, 4096, device=gpuperf.device)
    step = torch.compile(lambda x: torch.relu(x * 2 + 1), mode="reduce-overhead")
    gpuperf.check(step, x, expected=lambda x: torch.relu(x * 2 + 1))
    gpuperf.time(step, x)
    gpuperf.profile(step, x)

def test_chain(gpuperf):
    x = torch.randn(4096, 4096, device=gpuperf.device)
    def chain():
        torch.square(x)
        torch.square(x[:1024])
        torch.square(x[:2048])
    gpuperf.profile(chain)
    gpuperf.profile(chain, launches="last", label="last")
    gpuperf.profile(chain, launches=1, label="second")

def test_after(gpuperf):
    x = torch.randn(1024, device=gpuperf.device)
    gpuperf.check(lambda x: x + 1, x, expected=lambda x: x + 1)
"""


def run(pytester: pytest.Pytester) -> dict[str, Profile]:
    """Return the profiles of a run, by test and label."""
    before = set((pytester.path / ".gpuperf" / "runs").glob("*"))
    pytester.runpytest_subprocess("--gpuperf", "-p", "no:cacheprovider").assert_outcomes(passed=4)
    (folder,) = set((pytester.path / ".gpuperf" / "runs").glob("*")) - before
    return {
        f"{test.nodeid.partition('::')[2]} {label}": measured.profile
        for test in load_run(folder / "run.json").tests
        for label, measured in test.measurements.items()
        if measured.profile is not None
    }


def test_ncu_reads_graphs_in_each_run_and_the_gpu_stays_whole(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_k=TEST)
    for _ in range(3):
        found = run(pytester)
        assert not any(profile.unavailable for profile in found.values())
        graphs = {"test_graphs one", "test_graphs two", "test_compiled main"}
        assert {name for name, profile in found.items() if profile.source == "ncu"} == graphs
        assert [found[f"test_graphs {name}"].combined["kernels"] for name in ("one", "two")] == [1, 2]


def test_launches_combine_by_their_weights(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_k=TEST)
    found = run(pytester)
    whole, last, second = (found[f"test_chain {label}"] for label in ("main", "last", "second"))
    grids = [kernel.grid for kernel in whole.kernels]
    assert [[kernel.grid for kernel in one.kernels] for one in (second, last)] == [[grids[1]], [grids[2]]]
    used = weights_used(whole.kernels, whole.combined)
    by_cycles = ("sm_throughput", "achieved_occupancy", "dram_throughput")
    assert {used[name] for name in by_cycles} == {"cycles"}
    assert used["l2_hit_rate"] == "sectors"
    assert used["stall.long_scoreboard"] == "instructions * warp_cycles_per_instruction"
    assert "duration" not in used.values()
