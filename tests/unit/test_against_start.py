"""The end of a side process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest_gpuperf

ENDING = """
import atexit, ctypes, threading, time
from pytest_gpuperf.against.start import leave

class Freed:
    def __del__(self): print("freed")

kept = Freed()
atexit.register(print, "at exit")
threading.Thread(target=lambda: (time.sleep(0.1), print("thread"))).start()
ctypes.CDLL(None).printf(b"native")
leave(3)
"""


def test_a_side_waits_for_threads_and_exit_functions_but_frees_nothing() -> None:
    path = os.pathsep.join([str(Path(pytest_gpuperf.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", ENDING],
        env={**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": ""},
        stdout=subprocess.PIPE,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout.split("\n")) == (3, ["thread", "at exit", "native"])
