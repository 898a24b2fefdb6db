"""Processes that measure: one for a session, two for a restart."""

from __future__ import annotations

import datetime
import time
from contextlib import suppress
from functools import cache
from random import Random
from typing import TYPE_CHECKING, Any, cast

import msgspec
import torch
from triton.testing import do_bench

from benchmarks.children import ROOT
from benchmarks.gate_power.kernels import POWER_LIMITED, build_again, build_all, modes
from benchmarks.gate_power.samples import Began, Failed, SessionSample, model_key
from pytest_gpuperf.measure.device.conditions import Nvml
from pytest_gpuperf.measure.device.environment import environment
from pytest_gpuperf.measure.device.gpu_identity import gpu_info
from pytest_gpuperf.measure.device.originals import elapsed_us, event, record
from pytest_gpuperf.measure.timing.graph import hold_gpu
from pytest_gpuperf.measure.timing.timer import Timer
from pytest_gpuperf.records.timing import KnownTime
from pytest_gpuperf.statistics.clock_model import ClockModel

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.children import Parent
    from benchmarks.gate_power.kernels import Call
    from pytest_gpuperf.measure.reachable_tensors import CallElsewhere
    from pytest_gpuperf.measure.timing.batch import Batch
    from pytest_gpuperf.records import TimingMode, TimingSource

    Key = tuple[str, int]
    Calls = dict[Key, Call]

BUDGET_S = 0.45
"""Half of the default, which suffices for 20 blocks and a clock model at the highest clock."""
POWER_LIMITED_BUDGET_S = 1.0
"""The default, for a clock model of kernels that lower the clock themselves."""
LAUNCHES = 30
LAUNCHES_BLOCKED_US = 2_000
"""Time for which the GPU is blocked while launches are queued, so that the host's speed does not count."""
DO_BENCH_MS = (5, 15)
"""Warm-up and repetition; the defaults are 25 and 100."""
DIGITS = 5


@cache
def _timers() -> tuple[Timer, Timer]:
    """Return the timer with the usual budget, and the one for power-limited kernels."""
    gpu = gpu_info()
    nvml = Nvml(gpu.uuid)
    usual, longer = (
        Timer(gpu.l2_bytes, budget_s, nvml.conditions, max_sm_clock_mhz=nvml.max_sm_clock_mhz)
        for budget_s in (BUDGET_S, POWER_LIMITED_BUDGET_S)
    )
    return usual, longer


def session(parent: Parent, process: str, kernels: str = "") -> None:
    """Measure each kernel with each dose once, in this process's own order.

    Args:
        parent: The parent.
        process: Number of the process.
        kernels: Pattern of names; see `benchmarks.gate_power.kernels.named`.

    The first message has the clock models of earlier sessions, by kernel, mode and source: as a run does with
    those of its baseline, times near their clock take them over.
    """
    parent.wait_for_turn()
    models = msgspec.convert(parent.hear(), dict[str, ClockModel])
    calls = _begin(parent, kernels)
    card = gpu_info().uuid
    order = list(calls)
    Random(int(process)).shuffle(order)
    usual, longer = _timers()
    for kernel, permille in order:
        try:
            timer = longer if kernel in POWER_LIMITED else usual
            line = _sample(timer, calls[kernel, permille], int(process), kernel, permille, card, models)
        except Exception as error:
            _failed(parent, f"process {process}, {kernel} {permille} ‰", error)
        else:
            parent.tell(msgspec.to_builtins(line))


def _sample(
    timer: Timer,
    call: Call,
    process: int,
    kernel: str,
    permille: int,
    card: str,
    models: dict[str, ClockModel],
) -> SessionSample:
    timing, seconds = _took(
        lambda: timer.time(
            call,
            mode=modes()[kernel],
            known=_known(models, kernel),
            # No value is verified, so none is written elsewhere.
            elsewhere=lambda: cast(
                "CallElsewhere", build_again(kernel, permille, gpu_info().multiprocessors)
            ),
        )
    )
    launches, launches_s = _took(lambda: _launches(call))
    warm_up, rep = DO_BENCH_MS
    triton_ms, triton_s = _took(lambda: do_bench(call, warmup=warm_up, rep=rep, return_mode="median"))
    return SessionSample(
        process=process,
        kernel=kernel,
        permille=permille,
        card=card,
        timing=timing,
        seconds=round(seconds, 3),
        launches_us=tuple(_rounded(launch) for launch in launches),
        launches_s=round(launches_s, 3),
        do_bench_us=_rounded(1e3 * triton_ms),
        do_bench_s=round(triton_s, 3),
    )


def _known(models: dict[str, ClockModel], kernel: str) -> KnownTime | None:
    """Return the source and the model of earlier sessions."""
    mode, sources = cast("TimingMode", modes()[kernel]), cast("tuple[TimingSource, ...]", ("cupti", "events"))
    found = (KnownTime(mode, source, models.get(model_key(kernel, mode, source))) for source in sources)
    return next((one for one in found if one.model is not None), None)


def _launches(call: Call) -> list[float]:
    """Return microseconds of single launches, by event pairs."""
    pairs = [(event(), event()) for _ in range(LAUNCHES)]
    hold_gpu(LAUNCHES_BLOCKED_US)
    for start, end in pairs:
        record(start)
        call()
        record(end)
    torch.cuda.synchronize()
    return [elapsed_us(start, end) for start, end in pairs]


def take_turns(parent: Parent, doses: str, kernels: str = "") -> None:
    """Time a block of a kernel at each request, until the parent ends.

    A request is `[kernel, permille]`. The answer is a list with the block's microseconds a call and SM clock
    in MHz, or an error message.

    Args:
        parent: The parent.
        doses: The doses in ‰, as words.
        kernels: Pattern of names; see `benchmarks.gate_power.kernels.named`.
    """
    parent.wait_for_turn()
    prepared: dict[Key, tuple[Batch, bool]] = {}
    wanted = set(map(int, doses.split()))
    timer, _ = _timers()
    for key, call in _begin(parent, kernels).items():
        if key[1] not in wanted:
            continue
        try:
            ready = timer.prepare(call, modes()[key[0]])
            prepared[key] = ready, ready.records_better()
        except Exception as error:
            _failed(parent, f"{key[0]} {key[1]} ‰", error)
    parent.tell([])
    with suppress(EOFError):
        while True:
            kernel, permille = parent.hear()
            try:
                ready, recorded = prepared[kernel, permille]
                block = ready.block(recorded=recorded)
            except Exception as error:
                parent.tell(f"{type(error).__name__}: {error}")
            else:
                parent.tell([block.time_us, block.sm_clock_mhz])


def _begin(parent: Parent, kernels: str) -> Calls:
    torch.manual_seed(0)
    gpu = gpu_info()
    date = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    parent.tell(msgspec.to_builtins(Began(date=date, environment=environment(gpu, ROOT, ""))))
    return build_all(gpu.multiprocessors, kernels)


def _failed(parent: Parent, what: str, error: Exception) -> None:
    parent.tell(msgspec.to_builtins(Failed(what=what, why=f"{type(error).__name__}: {error}")))


def _took(do: Callable[[], Any]) -> tuple[Any, float]:
    begin = time.perf_counter()
    return do(), time.perf_counter() - begin


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")
