"""A GPU that another process has locked, and a project with a fake GPU."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

UUID = "GPU-c4101d6e-0f0c-4b6e-9c3e-000000000001"
GPU = """
import sys
from types import SimpleNamespace
import pytest_gpuperf.measure.device.gpu_identity, pytest_gpuperf.session.live_runner
from pytest_gpuperf.records import GpuInfo

sys.modules["pytest_gpuperf.measure.device.originals"] = SimpleNamespace(Originals=lambda _: None)
sys.modules["pytest_gpuperf.measure.timing.timer"] = SimpleNamespace(Timer=lambda *_, **__: None)
sys.modules["pytest_gpuperf.measure.first_calls"] = SimpleNamespace(CodeReader=lambda _: None)

pytest_gpuperf.session.live_runner.why_not_live = lambda: ""
pytest_gpuperf.measure.device.gpu_identity.gpu_info = lambda: GpuInfo(
    name="A GPU", slug="a-gpu", uuid={uuid!r}
)
"""
"""conftest.py for a live run without a GPU."""
HOLD = """
import sys
from pathlib import Path
from pytest_gpuperf.measure.device.gpu_lock import GpuLock

lock = GpuLock(sys.argv[1], [Path(folder) for folder in sys.argv[2:]] or GpuLock("")._folders)
lock.acquire()
print("held", flush=True)
sys.stdin.read()
lock.release()
"""


@contextmanager
def held_elsewhere(*folders: Path, gpu: str = UUID, **env: str) -> Iterator[subprocess.Popen[str]]:
    """Lock the GPU in another process, until its standard input is closed."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, gpu, *map(str, folders)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **env},
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "held\n"
            yield process
        finally:
            process.kill()


def let_go(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.close()
