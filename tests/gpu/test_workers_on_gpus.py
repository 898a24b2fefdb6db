"""A worker for each of several real GPUs."""

from __future__ import annotations

import os

import pytest
import torch

from pytest_gpuperf.measure.device.visible_gpus import visible_gpus
from pytest_gpuperf.records.run_store import load_run

SUITE = """
import pytest, torch

@pytest.mark.parametrize("number", range(6))
def test_square(gpuperf, number):
    assert torch.cuda.device_count() == 1
    x = torch.randn(1 << 24, device=gpuperf.device)
    gpuperf.check(torch.square, x, expected=lambda x: x * x)
    gpuperf.time(torch.square, x)
"""
RUN = ("--gpuperf", "-ogpuperf_budget=0.2", "-p", "xdist")


def test_visible_gpus_are_those_of_torch() -> None:
    uuids = [f"GPU-{torch.cuda.get_device_properties(at).uuid}" for at in range(torch.cuda.device_count())]
    assert sorted(gpu.uuid for gpu in visible_gpus()) == sorted(uuids)


def test_more_workers_than_gpus_are_refused(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_k=SUITE)
    asked = len(visible_gpus()) + 1
    result = pytester.runpytest_subprocess(*RUN, f"-n{asked}")
    result.stderr.fnmatch_lines([f"*-n {asked} asks for more processes than there are GPUs ({asked - 1})*"])


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs 2 GPUs")
@pytest.mark.parametrize("counters", ["off", "auto"])
def test_each_gpu_measures_its_tests(pytester: pytest.Pytester, counters: str) -> None:
    pytester.makepyfile(test_k=SUITE)
    result = pytester.runpytest_subprocess(*RUN, "-n2", f"--gpuperf-counters={counters}", timeout=300)
    result.assert_outcomes(passed=6)
    (path,) = pytester.path.glob(".gpuperf/runs/*/run.json")
    run = load_run(path)
    assert len(set(run.cards.values())) == 2
    assert len(run.tests) == 6
    profiled = [test.measurements["main"].profile for test in run.tests]
    assert all(one is None or not one.unavailable for one in profiled)
    assert os.environ.get("GPUPERF_HELD_GPU") is None
