"""Profile the same calls by NVIDIA's nsight-python, which starts this file again under ncu.

python benchmarks/counter_agreement/nsight_python.py METRICS.json FOUND.json

Versions up to 0.9 work with any ncu; later ones need ncu 2026.2.1.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from benchmarks.children import ROOT
from benchmarks.counter_agreement.results import LEAST_BYTES, REPEATS, Reading
from pytest_gpuperf.measure.counters.counter_source import RawKernel
from pytest_gpuperf.processes.children import end_group

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from benchmarks.counter_agreement.results import Results

LIMIT_S = 200
WARM_UP_CALLS = 3


def with_nsight_python(results: Results, ncu: Path, metrics: Collection[str]) -> Results:
    """Add the results of nsight-python, if it is installed.

    Args:
        results: Results without it.
        ncu: The program that it starts.
        metrics: Raw names of the metrics that ncu has read of each kernel.
    """
    try:
        found = version("nsight-python")
    except PackageNotFoundError:
        return results
    results = replace(results, nsight_python=found)
    with tempfile.TemporaryDirectory() as folder:
        asked, answer = (Path(folder) / name for name in ("metrics.json", "found.json"))
        asked.write_text(json.dumps(sorted(metrics)))
        began = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, __file__, str(asked), str(answer)],
            cwd=folder,
            env=_variables(ncu),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            lines = process.communicate(timeout=LIMIT_S)[0].decode(errors="replace").split("\n")
        except subprocess.TimeoutExpired:
            # Also ends ncu, which would keep the GPU.
            end_group(process)
            return replace(results, nsight_python_failure=f"not done in {LIMIT_S} s")
        seconds = time.perf_counter() - began
        if not answer.exists():
            last = next((line.strip() for line in reversed(lines) if line.strip()), "")
            return replace(results, nsight_python_failure=last or f"status {process.returncode}")
        rows = json.loads(answer.read_text())
    calls = {
        name: replace(call, nsight_python=reading_of(rows[name])) if name in rows else call
        for name, call in results.calls.items()
    }
    return replace(results, calls=calls, nsight_python_seconds=seconds)


def reading_of(row: dict[str, Any]) -> Reading:
    """Convert a row of results to the short names of the metrics."""
    kernel = RawKernel(name=row["kernel"], metrics=row["metrics"]).profile()
    return Reading(name=kernel.name, grid=kernel.grid, block=kernel.block, metrics=kernel.metrics)


def _variables(ncu: Path) -> dict[str, str]:
    """Return variables for nsight-python, which starts `ncu` by name and this file by path."""
    first = {"PATH": str(ncu.parent), "PYTHONPATH": str(ROOT)}
    paths = {
        name: os.pathsep.join(filter(None, (path, os.environ.get(name)))) for name, path in first.items()
    }
    return {**os.environ, **paths}


@cache
def _warm_calls() -> dict[str, Callable[[], object]]:
    # Imported only under ncu.
    from benchmarks.counter_agreement.kernels import calls

    found = calls()
    for fn in found.values():
        for _ in range(WARM_UP_CALLS):
            fn()
    return found


def main(asked: str, answer: str) -> None:
    """Profile each call by nsight-python."""
    import nsight

    metrics = json.loads(Path(asked).read_text())

    @nsight.analyze.kernel(  # type: ignore[untyped-decorator, unused-ignore]
        configs=[(name,) for name in LEAST_BYTES],
        runs=REPEATS,
        metrics=metrics,
        cache_control="all",
        clock_control="none",
        thermal_mode="off",
        output="quiet",
        output_prefix=f"{Path(answer).parent}{os.sep}",
    )
    def profiled(call: str) -> None:
        import torch

        fn = _warm_calls()[call]
        torch.cuda.synchronize()
        with nsight.annotate("call"):
            fn()
            torch.cuda.synchronize()

    rows: dict[str, dict[str, Any]] = {}
    for row in profiled().to_dataframe().to_dict("records"):
        found = rows.setdefault(row["call"], {"kernel": row["Kernel"], "metrics": {}})
        found["metrics"][row["Metric"]] = float(row["AvgValue"])
    Path(answer).write_text(json.dumps(rows))


if __name__ == "__main__":
    main(*sys.argv[1:])
