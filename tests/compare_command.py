"""`gpuperf compare` in a new project."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

from command_line import gpuperf
from pytest_gpuperf.records.run_store import RunStore
from run_builders import H200, measured, record, run

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_gpuperf.records import GpuInfo, MetricValue, Run, TestRecord

GEMM = "t/test_gemm.py::test_triton"
SMALL: dict[str, MetricValue] = {
    "sm_throughput": 80.0,
    "achieved_occupancy": 6.0,
    "occupancy_limiter": "shared_mem",
    "registers_per_thread": 220.0,
    "l2_hit_rate": 76.0,
    "stall.long_scoreboard": 33.0,
    "stall.barrier": 7.0,
}
LARGE: dict[str, MetricValue] = {
    **SMALL,
    "sm_throughput": 86.0,
    "registers_per_thread": 206.0,
    "stall.long_scoreboard": 23.0,
    "stall.barrier": 27.0,
}


def store(project: Path, *tests: TestRecord, id: str = "20261120-173012-3f9a", gpu: GpuInfo = H200) -> Run:
    kept = run(*tests, id=id, gpu=gpu)
    RunStore(project / ".gpuperf").write(kept)
    return kept


compare = partial(gpuperf, "compare")


def shown(*args: str) -> list[str]:
    return compare(*args, status=0).output.splitlines()


def refused(*args: str) -> str:
    return compare(*args, status=2).stderr


def cells(*args: str) -> dict[str, list[Any]]:
    """Return the cells by metric, for a comparison with one table."""
    result = compare(*args, "--json", status=0)
    return {line["metric"]: line["cells"] for line in json.loads(result.stdout)["lines"]}


def two_tiles(project: Path) -> None:
    store(
        project,
        record(f"{GEMM}[128x128]", main=measured(200.0, SMALL)),
        record(f"{GEMM}[128x256]", main=measured(180.0, LARGE)),
    )
