"""Samples of the gate's benchmark with a known truth."""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from benchmarks.gate_power.analysis import Summary, analyse
from benchmarks.gate_power.kernels import DOSES_PERMILLE
from benchmarks.gate_power.sample import PAIRS
from benchmarks.gate_power.samples import Began, Line, RestartSample, SessionSample
from pytest_gpuperf.records import Environment, GpuInfo, Timing, Toolchain

TIMES_US = {"short": 12.0, "middle": 90.0, "long": 480.0}


def a_session(process: int, kernel: str, permille: int, time_us: float, card: str = "GPU-1") -> SessionSample:
    launches = tuple(round(time_us * (1 + at / 1e5), 5) for at in range(30))
    return SessionSample(
        process=process,
        kernel=kernel,
        permille=permille,
        card=card,
        timing=Timing(
            mode="hot",
            time_us=time_us,
            spread_pct=0.1,
            blocks_us=(time_us,) * 10,
            blocks_mhz=(1980.0,) * 10,
            calls_per_block=10,
        ),
        seconds=0.5,
        launches_us=launches,
        launches_s=0.01,
        do_bench_us=time_us + 3,
        do_bench_s=0.1,
    )


def a_restart(restart: int, kernel: str, old: int, new: int, log_ratio: float) -> RestartSample:
    return RestartSample(
        restart=restart,
        kernel=kernel,
        old=old,
        new=new,
        card="GPU-1",
        log_ratio=log_ratio,
        raw_log_ratio=log_ratio,
        seconds=1.0,
    )


def samples(processes: int = 12, restarts: int = 12, sd_pct: float = 0.15, seed: int = 0) -> list[Line]:
    """Return processes and restarts that vary as on a GPU, with doses that change the time by as much."""
    rng = np.random.default_rng(seed)

    def noise() -> float:
        return math.exp(sd_pct / 100 * float(rng.standard_normal()))

    lines: list[Line] = [
        Began(
            date="2026-11-25T19:30:00Z",
            environment=Environment(
                gpu=GpuInfo(name="NVIDIA H200", slug="nvidia-h200", uuid="GPU-1"),
                toolchain=Toolchain(torch="2.11.0"),
                commit="c0ffee1234",
            ),
        )
    ]
    lines += [
        a_session(process, kernel, dose, time_us * (1 + dose / 1000) * noise())
        for process in range(processes)
        for kernel, time_us in TIMES_US.items()
        for dose in DOSES_PERMILLE
    ]
    for restart in range(restarts):
        for kernel in TIMES_US:
            for old, new in PAIRS:
                ratio = math.log((1 + new / 1000) / (1 + old / 1000) * noise())
                lines.append(a_restart(restart, kernel, old, new, ratio))
    return lines


@cache
def summary_of_samples() -> Summary:
    """Return the summary of `samples()`, which takes seconds."""
    return analyse(samples())
