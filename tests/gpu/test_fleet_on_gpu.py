"""A fleet of one worker on a real GPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks.fleet_project import git
from pytest_gpuperf.measure.device.visible_gpus import visible_gpus
from pytest_gpuperf.records.run_store import load_run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SUITE = """
import pytest
import torch

def square(gpuperf):
    x = torch.randn(2048, 2048, device=gpuperf.device)
    gpuperf(torch.square, x, expected=torch.square, bytes=2 * x.nbytes)

def test_new(gpuperf):
    square(gpuperf)

@pytest.mark.gpuperf(limits=["time_us <= 0.001"])
def test_too_slow(gpuperf):
    square(gpuperf)

def test_wrong(gpuperf):
    x = torch.ones(64, device=gpuperf.device)
    gpuperf.check(torch.square, x, expected=torch.zeros_like)
"""


@pytest.fixture
def scheduler(tmp_path: Path) -> Iterator[str]:
    distributed = pytest.importorskip("distributed")
    (tmp_path / "pytest.ini").touch()
    (tmp_path / ".gitignore").write_text("*.json\n__pycache__/\n", encoding="utf-8")
    (tmp_path / "test_k.py").write_text(SUITE, encoding="utf-8")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "project")
    with distributed.LocalCluster(
        n_workers=0, processes=False, protocol="tcp://", dashboard_address=":0"
    ) as own:
        worker = subprocess.Popen(
            command("fleet", "worker", own.scheduler_address), cwd=tmp_path, start_new_session=True
        )
        yield own.scheduler_address
        worker.terminate()
        worker.wait(30)


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-c", "from pytest_gpuperf.cli import main; main()", *arguments]


def test_worker_judges_as_a_plain_run(tmp_path: Path, scheduler: str) -> None:
    options = ("--gpuperf-counters=off", "-ogpuperf_budget=0.2")
    plain = [sys.executable, "-m", "pytest", "--gpuperf", "--gpuperf-json=plain.json", *options]
    assert subprocess.run(plain, cwd=tmp_path).returncode == 1
    expected = json.loads((tmp_path / "plain.json").read_bytes())["tests"]
    env = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    run = command("fleet", "run", "--scheduler", scheduler, "--wait", "60", "--json", "--", *options)
    done = subprocess.run(run, cwd=tmp_path, env=env, stdout=subprocess.PIPE)
    assert done.returncode == 1
    printed: dict[str, Any] = json.loads(done.stdout)
    assert {test["test"]: test["verdict"] for test in printed["tests"]} == {
        test["nodeid"]: test["verdict"] for test in expected
    }
    [model] = printed["models"]
    gpu = load_run(tmp_path / model["runs"][0]).environment.gpu
    assert (gpu.uuid, gpu.slug) in [(one.uuid, one.slug) for one in visible_gpus()]
    assert model["gpu"] == gpu.slug
