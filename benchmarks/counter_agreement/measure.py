"""Read the kernels by both tools, each in processes of its own."""

from __future__ import annotations

import datetime
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from benchmarks.children import ROOT
from benchmarks.counter_agreement.kernels import METRICS, longest, reading
from benchmarks.counter_agreement.nsight_python import with_nsight_python
from benchmarks.counter_agreement.results import LEAST_BYTES, REPEATS, SCHEMA, Agreement, Results
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.features.ncu.report_reader import read_report_isolated
from pytest_gpuperf.measure.device.environment import environment
from pytest_gpuperf.measure.device.gpu_identity import gpu_info
from pytest_gpuperf.measure.ncu.tool import CACHE_CONTROL, CLOCK_CONTROL, find_ncu
from pytest_gpuperf.metrics import ncu_metric_names
from pytest_gpuperf.metrics.chips import chip_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks.counter_agreement.results import Reading
    from pytest_gpuperf.measure.counters.counter_source import RawKernel
    from pytest_gpuperf.measure.ncu.tool import Ncu

NAMES = tuple(LEAST_BYTES)
_CHILD = (sys.executable, "-m", "benchmarks.counter_agreement.kernels")


def measure() -> Results:
    """Read the kernels by both tools on the current device.

    Raises:
        GpuperfError: ncu is not installed, or wrote no report.
    """
    ncu = find_ncu()
    if ncu is None:
        raise GpuperfError("ncu was not found", next_step="install Nsight Compute")
    calls = _by_cupti()
    plain_seconds = _run(_CHILD, "launch")[1]
    kernels, ncu_seconds = _by_ncu(ncu)
    readings = _of_each_call(kernels)
    results = Results(
        schema=SCHEMA,
        date=datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        environment=environment(gpu_info(), ROOT, ncu.version),
        calls={name: msgspec.structs.replace(calls[name], ncu=readings[name]) for name in NAMES},
        ncu_seconds=ncu_seconds,
        plain_seconds=plain_seconds,
    )
    numbers = (
        {name for name, value in kernel.metrics.items() if not isinstance(value, str)} for kernel in kernels
    )
    return with_nsight_python(results, ncu.path, set.intersection(*numbers))


def _by_cupti() -> dict[str, Agreement]:
    """Profile each call by CUPTI; after a call that ends the process, go on in a new one."""
    rows: list[Agreement] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.jsonl"
        while len(rows) < len(NAMES):
            done, _ = _run(_CHILD, "profile", str(path), str(len(rows)))
            lines = path.read_bytes().splitlines() if path.exists() else []
            rows = [msgspec.json.decode(line, type=Agreement) for line in lines]
            if len(rows) < len(NAMES):
                said = f"exit status {done.returncode}\n{done.stdout}{done.stderr}"
                rows.append(Agreement(failure=said))
                with path.open("ab") as stream:
                    stream.write(msgspec.json.encode(rows[-1]) + b"\n")
    return dict(zip(NAMES, rows, strict=True))


def _by_ncu(ncu: Ncu) -> tuple[Sequence[RawKernel], float]:
    """Return the launches read by ncu, and the seconds that this took."""
    chip = chip_of(gpu_info().compute_capability)
    names = ncu_metric_names(METRICS, chip.name if chip else "")
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.ncu-rep"
        command = (
            *(str(ncu.path), "--config-file", "off"),
            *("--cache-control", CACHE_CONTROL, "--clock-control", CLOCK_CONTROL),
            *("--profile-from-start", "off", "--nvtx", "--metrics", ",".join(names), "--export", str(report)),
        )
        began = time.perf_counter()
        done, _ = _run((*command, *_CHILD), "launch")
        if not report.exists():
            raise GpuperfError(f"ncu wrote no report: {done.stdout}{done.stderr}")
        kernels = read_report_isolated(report, names, ncu=ncu.path)
        return kernels, time.perf_counter() - began


def _of_each_call(kernels: Sequence[RawKernel]) -> Mapping[str, tuple[Reading, ...]]:
    readings: dict[str, tuple[Reading, ...]] = {}
    for name in NAMES:
        found = [kernel.profile() for kernel in kernels if name in kernel.ranges]
        each = len(found) // REPEATS
        chosen = [longest(tuple(found[at * each : (at + 1) * each])) for at in range(REPEATS)] if each else []
        readings[name] = tuple(map(reading, chosen))
    return readings


def _run(child: Sequence[str], *arguments: str) -> tuple[subprocess.CompletedProcess[str], float]:
    variables = {**os.environ, "LC_ALL": "C"}
    began = time.perf_counter()
    done = subprocess.run(
        [*child, *arguments], cwd=ROOT, env=variables, capture_output=True, text=True, check=False
    )
    return done, time.perf_counter() - began
