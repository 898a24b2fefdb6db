"""Two runs on one GPU take turns, and the child under ncu does not wait for its parent."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from pytest_gpuperf.measure.device.gpu_identity import gpu_info
from pytest_gpuperf.measure.device.gpu_lock import GpuLock

if TYPE_CHECKING:
    import pytest

# A run reports its wait after one second.
TWO_SECONDS = """
import time
import torch

def test_k(gpuperf):
    gpuperf.time(torch.square, torch.ones(1000, device=gpuperf.device))
    gpuperf.profile(torch.square, torch.ones(1000, device=gpuperf.device))
    time.sleep(2)
"""


def test_two_runs_take_turns(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_k=TWO_SECONDS)
    command = [sys.executable, "-m", "pytest", "--gpuperf"]
    runs = [pytester.popen(command) for _ in range(2)]
    outputs = [run.stdout.read().decode() for run in runs]
    assert [run.wait() for run in runs] == [0, 0], outputs
    waited = [output for output in outputs if "gpuperf: waiting for GPU-" in output]
    assert len(waited) == 1, outputs
    assert "(pytest) has been measuring for" in waited[0]
    assert GpuLock(gpu_info().uuid).holder() is None
