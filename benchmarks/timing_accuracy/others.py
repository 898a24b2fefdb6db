"""Time the kernels by other tools in fresh processes, each used as its documentation says."""

from __future__ import annotations

import json
import os
import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch

from benchmarks.timing_accuracy.kernels import KERNELS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from benchmarks.children import Parent

MIN_RUN_S = 0.25
"""Time for each kernel, for tools with such a setting."""

PYTEST_BENCHMARK = """
import pytest
import torch
from benchmarks.timing_accuracy.kernels import KERNELS

@pytest.mark.parametrize("kernel", KERNELS)
def test_kernel(benchmark, kernel):
    fn = KERNELS[kernel]()

    def call():
        fn()
        torch.cuda.synchronize()

    benchmark(call)
"""

GPUCHECK = """
import json
from pathlib import Path
import pytest
from benchmarks.timing_accuracy.kernels import KERNELS

@pytest.mark.parametrize("kernel", KERNELS)
def test_kernel(gpu_benchmark, kernel):
    result = gpu_benchmark(KERNELS[kernel]())
    with Path("found.jsonl").open("a") as file:
        file.write(json.dumps([kernel, result.median]) + "\\n")
"""


def triton(parent: Parent, name: str) -> None:
    """Time by a function of `triton.testing`.

    `do_bench`: event pairs, with L2 flushed before each. `do_bench_cudagraph`: events around graphs of many
    launches. `do_bench_proton` and `do_bench_cudagraph_proton`, from Triton 3.8 on: records of CUPTI, with L2
    flushed before each launch.

    Raises:
        RuntimeError: The installed Triton has no such function.
    """
    from triton import testing

    bench = getattr(testing, name, None)
    if bench is None:
        raise RuntimeError(f"Triton {version('triton')} has no {name}, which came with 3.8")
    _each(parent, "triton", lambda fn: 1e3 * bench(fn, return_mode="median"))


def torch_benchmark(parent: Parent) -> None:
    """Time by `torch.utils.benchmark`: the host's clock around many launches and a synchronisation."""
    from torch.utils.benchmark import Timer

    def us(fn: Callable[[], Any]) -> float:
        timer = Timer("fn()", globals={"fn": fn})
        return 1e6 * timer.blocked_autorange(min_run_time=MIN_RUN_S).median

    _each(parent, "torch", us)


def pytest_benchmark(parent: Parent) -> None:
    """Time by pytest-benchmark: the host's clock around each launch and a synchronisation."""
    import pytest_benchmark.plugin  # noqa: F401

    parent.wait_for_turn()
    with tempfile.TemporaryDirectory() as folder:
        options = ("--benchmark-json=found.json", f"--benchmark-max-time={MIN_RUN_S}")
        failure = _pytest(Path(folder), PYTEST_BENCHMARK, "pytest_benchmark.plugin", *options)
        written = Path(folder) / "found.json"
        found = json.loads(written.read_bytes())["benchmarks"] if written.exists() else []
    _tell(
        parent,
        "pytest-benchmark",
        {each["params"]["kernel"]: 1e6 * each["stats"]["median"] for each in found},
        failure,
    )


def gpucheck(parent: Parent) -> None:
    """Time by the fixture of gpucheck: event pairs, with a flush and a synchronisation before each."""
    import gpucheck.plugin  # noqa: F401

    parent.wait_for_turn()
    with tempfile.TemporaryDirectory() as folder:
        failure = _pytest(Path(folder), GPUCHECK, "gpucheck.plugin")
        written = Path(folder) / "found.jsonl"
        lines = written.read_text().splitlines() if written.exists() else []
    _tell(parent, "gpucheck", {kernel: 1e3 * ms for kernel, ms in map(json.loads, lines)}, failure)


def _each(parent: Parent, distribution: str, us: Callable[[Callable[[], Any]], float]) -> None:
    parent.wait_for_turn()
    torch.manual_seed(0)
    for kernel, make in KERNELS.items():
        _tell(parent, distribution, {kernel: us(make())})


class _Failures:
    """pytest plugin that keeps the message of the first failing test."""

    def __init__(self) -> None:
        self.first = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.first:
            crash = getattr(report.longrepr, "reprcrash", None)
            lines = str(crash.message if crash else report.longrepr).strip().splitlines()
            self.first = f"{report.nodeid}: {lines[0] if crash else lines[-1]}"


def _pytest(folder: Path, test: str, plugin: str, *options: str) -> str:
    """Run one test file with one plugin, in this process.

    Returns:
        The first failure; empty if all passed.
    """
    (folder / "test_kernels.py").write_text(test)
    (folder / "pytest.ini").write_text("[pytest]\n")
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    os.chdir(folder)
    failures = _Failures()
    arguments = ["-q", "-p", plugin, "-p", "no:cacheprovider", *options, "test_kernels.py"]
    status = pytest.main(arguments, plugins=[failures])
    os.chdir("/")
    return failures.first or (f"pytest ended with status {int(status)}" if status else "")


def _tell(parent: Parent, distribution: str, times_us: Mapping[str, float], failure: str = "") -> None:
    """Send the times; then raise the failure, if any.

    Raises:
        RuntimeError: A test failed.
    """
    try:
        found = version(distribution)
    except PackageNotFoundError:
        found = ""
    parent.tell({"tool": distribution, "version": found, "times_us": dict(times_us)})
    if failure:
        raise RuntimeError(failure)
