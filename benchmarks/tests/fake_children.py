"""Targets of `benchmarks.children.Child` for tests."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchmarks.children import Parent

GPU = {"name": "NVIDIA H200", "slug": "nvidia-h200", "uuid": "GPU-1"}
ENVIRONMENT = {"gpu": GPU, "toolchain": {"torch": "2.11.0", "driver": "580"}, "commit": "c0ffee1234"}
BEGAN = {"type": "began", "date": "2026-11-21T10:00:00Z", "environment": ENVIRONMENT}


def count(parent: Parent, upto: str) -> None:
    """Count when its turn comes."""
    parent.wait_for_turn()
    for number in range(int(upto)):
        parent.tell(number)


def fail(parent: Parent) -> None:
    """Send one message, then fail."""
    parent.wait_for_turn()
    parent.tell("first")
    raise RuntimeError("CUDA error: an illegal memory access was encountered")


def be_killed(parent: Parent, *_: str) -> None:
    """End by SIGKILL, as from the kernel's memory killer."""
    parent.wait_for_turn()
    os.kill(os.getpid(), signal.SIGKILL)


def hang(parent: Parent) -> None:
    """Send one message, then hang, with a program of its own that hangs too."""
    parent.wait_for_turn()
    program = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    parent.tell(program.pid)
    time.sleep(60)


def note_times(parent: Parent, path: str) -> None:
    """Log the import, the turn and the end."""
    _note(path, "imported")
    parent.wait_for_turn()
    _note(path, "begins")
    time.sleep(0.5)
    _note(path, "ends")


def _note(path: str, what: str) -> None:
    with Path(path).open("a") as file:
        file.write(f"{what}\n")


def take_turns_alone(parent: Parent, path: str, file: str) -> None:
    """Answer as a process of the zoo that takes turns, and log them; `killed` ends in its turn."""
    from benchmarks.zoo.turns import Turns

    parent.wait_for_turn()
    turns = Turns(file)
    parent.tell("started")
    while (order := parent.hear()) is not None:
        name, asked = order["name"], order["asked"][-1]
        turns.prepare(parent)
        _note(path, f"{name} prepares")
        with turns.for_time(parent):
            parent.tell({"begins": asked})
            if name == "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            _note(path, f"{name} begins")
            time.sleep(0.1)
            _note(path, f"{name} ends")
        parent.tell({"tried": {"name": name, "kind": "k", "asked": asked, "fate": "checked"}})
        parent.tell({"done": name})


def ours(parent: Parent, *modes: str) -> None:
    """Send times of two kernels, one of which cannot be timed cold."""
    parent.wait_for_turn()
    parent.tell({"environment": ENVIRONMENT, "max_sm_clock_mhz": 1980})
    for mode in modes:
        parent.tell({"kernel": "square 64²", "mode": mode, "found": {"time_us": 1.0, "sm_clock_mhz": 1979.0}})
        found = {"failure": "GpuperfError: too short"} if mode == "cold" else {"time_us": 2.0}
        parent.tell({"kernel": "square 256²", "mode": mode, "found": found})


def ours_and_truth(parent: Parent, *modes: str) -> None:
    """Send the same times and one true duration, then fail."""
    ours(parent, *modes)
    parent.tell({"kernel": "square 64²", "truth": {"hot_us": 0.95, "cold_us": 1.2}})
    raise ValueError("61 kernels in 60 calls")


def placement(parent: Parent) -> None:
    """Send times of one kernel on several pieces of memory."""
    parent.wait_for_turn()
    found = {"same_us": [1.0, 1.1], "other_us": [1.2]}
    parent.tell({"kernel": "square 64²", "condition": "cold", "placement": found})


def other(parent: Parent) -> None:
    """Send another tool's times."""
    parent.wait_for_turn()
    parent.tell({"tool": "triton", "version": "3.6.0", "times_us": {"square 64²": 4.26}})


def pytest_benchmark_on_cpu(parent: Parent) -> None:
    """Run pytest-benchmark on a kernel for the CPU."""
    import torch

    from benchmarks.timing_accuracy import kernels, others

    def make() -> Any:
        x = torch.ones(8)
        return lambda: x + 1

    def broken() -> Any:
        raise RuntimeError("out of memory")

    kernels.KERNELS.clear()
    kernels.KERNELS.update({"sum": make, "broken": broken})
    torch.cuda.synchronize = lambda device=None: None
    others.MIN_RUN_S = 0.01
    others.pytest_benchmark(parent)


def session(parent: Parent, process: str, _kernels: str = "") -> None:
    """Send one sample and one failure."""
    parent.wait_for_turn()
    parent.tell(BEGAN)
    timing = {"mode": "hot", "time_us": 10.0, "spread_pct": 0.1, "blocks_us": [10.0], "calls_per_block": 5}
    parent.tell(
        {
            "type": "session",
            "process": int(process),
            "kernel": "copy",
            "permille": 0,
            "card": "GPU-1",
            "timing": timing,
            "seconds": 0.4,
            "launches_us": [10.5, 10.6],
            "launches_s": 0.01,
            "do_bench_us": 11.0,
            "do_bench_s": 0.1,
        }
    )
    parent.tell({"type": "failed", "what": f"process {process}, matmul", "why": "RuntimeError: no memory"})


def take_turns(parent: Parent, doses: str, _kernels: str = "") -> None:
    """Answer as a side whose kernels take 100 µs plus the dose, without the histogram."""
    parent.wait_for_turn()
    parent.tell(BEGAN)
    parent.tell([])
    while True:
        try:
            kernel, permille = parent.hear()
        except EOFError:
            return
        if "histogram" in kernel or str(permille) not in doses.split():
            parent.tell(f"KeyError: {kernel}")
        else:
            parent.tell([100 + permille / 10, 1980.0])


def fail_at_once(parent: Parent, *_: str) -> None:
    """End before the first message."""
    parent.wait_for_turn()
    raise RuntimeError("no GPU")
