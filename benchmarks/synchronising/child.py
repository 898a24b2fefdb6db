"""Process that times each callable without and with more work once."""

from __future__ import annotations

import datetime
import time
from random import Random
from typing import TYPE_CHECKING

import msgspec

from benchmarks.children import ROOT
from benchmarks.gate_power.samples import Began, Failed, SessionSample
from benchmarks.synchronising.callables import build_all
from pytest_gpuperf.measure.device.conditions import Nvml
from pytest_gpuperf.measure.device.environment import environment
from pytest_gpuperf.measure.device.gpu_identity import gpu_info
from pytest_gpuperf.measure.timing.timer import Timer

if TYPE_CHECKING:
    from benchmarks.children import Parent

BUDGET_S = 0.25
"""A quarter of the default: without time to vary the clock."""


def session(parent: Parent, process: str) -> None:
    """Measure each callable with each dose once, in this process's own order."""
    parent.wait_for_turn()
    gpu = gpu_info()
    date = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    parent.tell(msgspec.to_builtins(Began(date=date, environment=environment(gpu, ROOT, ""))))
    nvml = Nvml(gpu.uuid)
    timer = Timer(gpu.l2_bytes, BUDGET_S, nvml.conditions, max_sm_clock_mhz=nvml.max_sm_clock_mhz)
    calls = build_all()
    order = list(calls)
    Random(int(process)).shuffle(order)
    for name, permille in order:
        begin = time.perf_counter()
        try:
            timing = timer.time(calls[name, permille], mode="auto")
        except Exception as error:
            failed = Failed(what=f"process {process}, {name}", why=f"{type(error).__name__}: {error}")
            parent.tell(msgspec.to_builtins(failed))
            continue
        sample = SessionSample(
            process=int(process),
            kernel=name,
            permille=permille,
            card=gpu.uuid,
            timing=timing,
            seconds=round(time.perf_counter() - begin, 3),
        )
        parent.tell(msgspec.to_builtins(sample))
