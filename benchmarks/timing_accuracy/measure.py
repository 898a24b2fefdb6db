"""Start the processes one after the other and collect their results."""

from __future__ import annotations

import datetime
import time
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from benchmarks.children import ChildError, in_turn, say
from benchmarks.timing_accuracy.results import SCHEMA, Ours, Placement, Process, Results, Truth
from pytest_gpuperf.records import Environment

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks.children import Child

    Job = tuple[str, str, tuple[str, ...], float]
    """Name, target, arguments, limit in seconds."""

_HERE = "benchmarks.timing_accuracy"
OF_TRITON = {
    "do_bench": 30,
    "do_bench_cudagraph": 30,
    "do_bench_proton": 90,
    "do_bench_cudagraph_proton": 150,
}
"""Timers of `triton.testing`, and the limit of each in seconds; those of Proton also flush L2."""


def gpu_jobs(processes: int) -> list[Job]:
    """Return jobs that time on the GPU, during which the next process may import."""
    ours: list[Job] = [
        (f"ours {at + 1}", f"{_HERE}.ours:measure", ("hot", "cold", *(["queued"] if not at else [])), 180)
        for at in range(processes)
    ]
    others: list[Job] = [
        ("placement", f"{_HERE}.placement:measure", (), 150),
        *((name, f"{_HERE}.others:triton", (name,), limit_s) for name, limit_s in OF_TRITON.items()),
        ("gpucheck", f"{_HERE}.others:gpucheck", (), 30),
    ]
    return [*ours, *others]


def host_jobs() -> list[Job]:
    """Return jobs that time by the host's clock and need the host for themselves."""
    return [
        ("torch.utils.benchmark", f"{_HERE}.others:torch_benchmark", (), 30),
        ("pytest-benchmark", f"{_HERE}.others:pytest_benchmark", (), 60),
    ]


def measure(processes: int, keep: Callable[[Results], None], say: Callable[[str], None] = say) -> Results:
    """Measure with all tools; note failures and go on.

    Args:
        processes: Number of fresh processes that time kernels with the plugin and read true durations.
        keep: Stores the results so far; called after each process.
        say: Receives progress messages.
    """
    date = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    results = Results(schema=SCHEMA, date=date)
    for jobs, ahead in ((gpu_jobs(processes), True), (host_jobs(), False)):
        for job, child in zip(jobs, in_turn([job[1:3] for job in jobs], ahead=ahead), strict=True):
            results = _run(job, child, results)
            why = results.failures.get(job[0])
            say(f"{job[0]}: {results.seconds[job[0]]} s" + (f", failed: {why}" if why else ""))
            keep(results)
    return results


def _run(job: Job, child: Child, results: Results) -> Results:
    name, _, _, limit_s = job
    begin = time.perf_counter()
    messages: list[dict[str, Any]] = []
    try:
        for message in child.messages(limit_s):
            messages.append(message)  # noqa: PERF402 (keeps messages before a failure)
    except ChildError as error:
        results = replace(results, failures={**results.failures, name: str(error)})
    seconds = {**results.seconds, name: round(time.perf_counter() - begin, 1)}
    return replace(_with(name, messages, results), seconds=seconds)


def _with(name: str, messages: Sequence[dict[str, Any]], results: Results) -> Results:
    """Add the messages of a child to the results."""
    tools = dict(results.tools)
    truth: dict[str, Truth] = {}
    environment, clock = results.environment, results.max_sm_clock_mhz
    found: dict[str, dict[str, Ours]] = {}
    placement = {kernel: dict(found) for kernel, found in results.placement.items()}
    times: dict[str, float] = {}
    for message in messages:
        if "environment" in message:
            environment = msgspec.convert(message["environment"], Environment)
            clock = message["max_sm_clock_mhz"]
        elif "truth" in message:
            truth[message["kernel"]] = msgspec.convert(message["truth"], Truth)
        elif "placement" in message:
            of_kernel = placement.setdefault(message["kernel"], {})
            of_kernel[message["condition"]] = msgspec.convert(message["placement"], Placement)
        elif "found" in message:
            found.setdefault(message["kernel"], {})[message["mode"]] = msgspec.convert(message["found"], Ours)
        else:
            tools[message["tool"]] = message["version"]
            times |= {kernel: round(us, 4) for kernel, us in message["times_us"].items()}
    return replace(
        results,
        environment=environment,
        max_sm_clock_mhz=clock,
        tools=tools,
        processes=(*results.processes, Process(ours=found, truth=truth)) if found else results.processes,
        placement=placement,
        others={**results.others, name: times} if times else results.others,
    )
