"""`gpuperf doctor` on a machine with a GPU."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from pathlib import Path


def test_gpu_and_driver_are_read_without_a_failed_check(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from pytest_gpuperf.cli import main; main()", "doctor", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    checks = {check["name"]: check for check in json.loads(done.stdout)}
    assert [check for check in checks.values() if "this check failed" in check["text"]] == []
    assert checks["gpu"]["state"] == "ok"
    assert checks["gpu"]["text"].startswith(torch.cuda.get_device_name())
    assert checks["clocks"]["text"].startswith("SM ")
    assert checks["lock"]["text"] == "free"
