"""Counters read by CUPTI beside those that ncu reads of the same kernels, on a real GPU."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from typing import Any

import pytest
import torch
from profiled_kernels import METRICS, REPEATS, SCRIPT, environment, longest

from pytest_gpuperf.counters.catalogue import METRICS as CATALOGUE
from pytest_gpuperf.counters.catalogue import ncu_metric_names
from pytest_gpuperf.counters.chips import chip_of
from pytest_gpuperf.counters.isolated_reader import read_report_isolated
from pytest_gpuperf.counters.ncu import find_ncu
from pytest_gpuperf.counters.ncu_report_reader import ncu_python_dirs
from pytest_gpuperf.counters.presets import PRESETS
from pytest_gpuperf.device.gpu import gpu_info

os.environ.setdefault("TEARDOWN_CUPTI", "1")

NAMES = (
    "square_torch",
    "square_triton",
    "square_small",
    "cast",
    "transpose",
    "gemm_bf16",
    "gemm_triton",
    "gemm_fp32",
    "softmax",
    "sum_rows",
    "layer_norm",
    "gather",
    "exp_sin",
)
COMPARED = (
    "sm_throughput",
    "memory_throughput",
    "dram_throughput",
    "l2_throughput",
    "l1_throughput",
    "achieved_occupancy",
    "tensor_active",
    "instructions",
    *(name for name in METRICS if name.startswith("stall.")),
)
FACTS = [
    name
    for name in (*PRESETS["launch"], "shared_memory.dynamic")
    if name not in ("duration_us", "occupancy_limit.barriers")
]
RELATIVE, POINTS, SMALL_STALL = 0.02, 0.5, 5.0

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU"),
]
needs_ncu = pytest.mark.skipif(find_ncu() is None, reason="needs ncu")


@pytest.fixture(scope="module")
def by_cupti(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Rows of the script by name, with `error` where a call could not be profiled."""
    path = tmp_path_factory.mktemp("cupti") / "rows.jsonl"
    rows: list[dict[str, Any]] = []
    while len(rows) < len(NAMES):
        done = subprocess.run(
            [sys.executable, str(SCRIPT), "profile", str(path), str(len(rows))],
            env=environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        if len(rows) < len(NAMES):
            # It ended while this one was profiled.
            error = f"exit status {done.returncode}\n{done.stdout}{done.stderr}"
            row = {"index": len(rows), "name": NAMES[len(rows)], "error": error}
            rows.append(row)
            with path.open("a") as stream:
                stream.write(json.dumps(row) + "\n")
    return {row["name"]: row for row in rows}


@pytest.fixture(scope="module")
def by_ncu(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Rows of the same shape, read by ncu with the caches and clocks left alone."""
    ncu = find_ncu()
    assert ncu is not None
    folder = tmp_path_factory.mktemp("ncu")
    report = folder / "report.ncu-rep"
    chip = chip_of(gpu_info().compute_capability)
    names = ncu_metric_names(METRICS, chip.name if chip else "")
    command = [
        *(str(ncu.path), "--config-file", "off", "--clock-control", "none", "--cache-control", "none"),
        *("--profile-from-start", "off", "--nvtx", "--metrics", ",".join(names), "--export", str(report)),
        *(sys.executable, str(SCRIPT), "launch"),
    ]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    assert report.exists(), done.stdout + done.stderr
    rows: dict[str, Any] = {name: {"kernels": []} for name in NAMES}
    kernels = read_report_isolated(report, names, search=ncu_python_dirs(ncu.path))
    for name in NAMES:
        found = [kernel for kernel in kernels if name in kernel.ranges]
        each = len(found) // REPEATS
        for start in range(0, len(found), each):
            kernel = longest(tuple(kernel.profile() for kernel in found[start : start + each]))
            rows[name]["kernels"].append(
                {"name": kernel.name, "grid": kernel.grid, "block": kernel.block, "metrics": kernel.metrics}
            )
    # What differs can be looked at where the CUPTI rows are.
    (folder / "ncu.json").write_text(json.dumps(rows))
    return rows


def median(row: dict[str, Any], metric: str) -> float:
    values = [kernel["metrics"].get(metric) for kernel in row["kernels"]]
    return statistics.median(values) if None not in values else float("nan")


def differing(cupti: dict[str, Any], ncu: dict[str, Any]) -> list[str]:
    """Metrics on which the two do not agree, with both values."""
    found = []
    for name in COMPARED:
        one, other = median(cupti, name), median(ncu, name)
        if one != one and (other != other or other == 0):
            continue
        if name.startswith("stall.") and max(one, other) < SMALL_STALL:
            continue
        tolerance = max(RELATIVE * other, POINTS if CATALOGUE[name].unit == "%" else 0)
        if not abs(one - other) <= tolerance:
            found.append(f"{name}: {one:.5g} by CUPTI, {other:.5g} by ncu")
    return found


def rows_of(name: str, by_cupti: dict[str, Any], by_ncu: dict[str, Any]) -> tuple[Any, Any]:
    cupti, ncu = by_cupti[name], by_ncu[name]
    assert "error" not in cupti, cupti["error"]
    assert len(cupti["kernels"]) == len(ncu["kernels"]) == REPEATS
    return cupti, ncu


@needs_ncu
@pytest.mark.parametrize("name", NAMES)
def test_values_are_those_of_ncu(name: str, by_cupti: dict[str, Any], by_ncu: dict[str, Any]) -> None:
    assert differing(*rows_of(name, by_cupti, by_ncu)) == []


@needs_ncu
@pytest.mark.parametrize("name", NAMES)
def test_the_launch_is_as_ncu_has_it(name: str, by_cupti: dict[str, Any], by_ncu: dict[str, Any]) -> None:
    for one, other in zip(*(row["kernels"] for row in rows_of(name, by_cupti, by_ncu)), strict=True):
        assert (one["name"], list(one["grid"]), list(one["block"])) == (
            other["name"],
            list(other["grid"]),
            list(other["block"]),
        )
        facts = [{fact: row["metrics"].get(fact) for fact in FACTS} for row in (one, other)]
        assert facts[0] == pytest.approx(facts[1], rel=1e-5)
