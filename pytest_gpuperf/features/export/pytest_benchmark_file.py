"""A run as a storage file of pytest-benchmark, for its `compare` and histograms."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.report.forms.as_json import escaped

if TYPE_CHECKING:
    from pytest_gpuperf.records import Environment, Run, Timing


def to_pytest_benchmark(run: Run) -> bytes:
    """Return the times of a run in the format of pytest-benchmark, in seconds.

    A block of the timing is a round, the calls of a block are its iterations. The timing mode is the
    benchmark's group, so that each mode has a table of its own. Failed tests are left out, as in
    pytest-benchmark. Its fields for host and user stay empty.

    Raises:
        GpuperfError: pytest-benchmark is not installed, or the run has no time of a test that passed.
    """
    try:
        import pytest_benchmark
    except ModuleNotFoundError:
        raise GpuperfError(
            "pytest-benchmark is not installed",
            expected="the package, because its own code makes the statistics of its files",
            next_step="pip install pytest-benchmark",
        ) from None
    benchmarks = [
        _benchmark(test.nodeid, label, measured.timing, run)
        for test in run.tests
        for label, measured in test.measurements.items()
        if measured.timing is not None and not test.failure and not measured.is_wrong
    ]
    if not benchmarks:
        raise GpuperfError(f"the run {run.id} has no time of a test that passed", expected="a run with times")
    environment = run.environment
    document = {
        "machine_info": _machine_info(environment),
        "commit_info": {
            "id": environment.commit or "unknown",
            "time": None,
            "author_time": None,
            "dirty": environment.dirty,
            "project": "",
            "branch": "(unknown)",
        },
        "benchmarks": benchmarks,
        "datetime": run.started_at,
        "version": pytest_benchmark.__version__,
    }
    return escaped(json.dumps(document, indent=4)).encode() + b"\n"


def _benchmark(nodeid: str, label: str, timing: Timing, run: Run) -> dict[str, Any]:
    function, bracket, parameters = nodeid.partition("::")[2].partition("[")
    suffix = "" if label == "main" else f" ({label})"
    return {
        "group": timing.mode,
        "name": f"{function.rpartition('::')[2]}{bracket}{parameters}{suffix}",
        "fullname": f"{nodeid}{suffix}",
        "params": None,
        "param": parameters.removesuffix("]") if bracket else None,
        "extra_info": {
            "gpu": run.environment.gpu.name,
            "run": run.id,
            "time_us": timing.time_us,
            "gb_per_s": timing.gb_per_s,
            "tflop_per_s": timing.tflop_per_s,
        },
        "options": {"timer": f"gpuperf ({timing.mode})"},
        "stats": _stats(timing),
    }


def _stats(timing: Timing) -> dict[str, Any]:
    from pytest_benchmark.stats import Stats

    stats = Stats()  # type: ignore[no-untyped-call]
    for block_us in timing.blocks_us or (timing.time_us,):
        stats.update(block_us / 1e6)  # type: ignore[no-untyped-call]
    return {
        **stats.as_dict(),  # type: ignore[no-untyped-call]
        "data": stats.data,
        "iterations": timing.calls_per_block,
    }


def _machine_info(environment: Environment) -> dict[str, Any]:
    gpu, toolchain = environment.gpu, environment.toolchain
    # Its fields for host and user stay empty.
    words = ("node", "processor", "machine", "release", "system", "python_compiler", "python_implementation")
    return {
        **dict.fromkeys((*words, "python_implementation_version"), ""),
        "python_version": toolchain.python,
        "python_build": [],
        "cpu": {},
        "gpu": gpu.name,
        "compute_capability": gpu.compute_capability,
        "driver": toolchain.driver,
        "cuda": toolchain.cuda,
        "torch": toolchain.torch,
        "triton": toolchain.triton,
    }
