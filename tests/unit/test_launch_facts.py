"""Facts of launches, compared with ncu's facts of the same launches on an H200."""

from __future__ import annotations

import csv
import gzip
import re
from pathlib import Path

import pytest

from fake_cupti import activity
from pytest_gpuperf.measure.counters.cupti_counters import launch_facts
from pytest_gpuperf.metrics.ncu_units import to_base
from pytest_gpuperf.records import GpuInfo

CAPTURE = Path(__file__).parents[1] / "data" / "captures" / "torch_mixed_raw_wide.csv.gz"
H200 = GpuInfo(name="NVIDIA H200", slug="nvidia-h200", compute_capability="9.0", multiprocessors=132)

with gzip.open(CAPTURE, "rt") as text:
    UNITS, *LAUNCHES = csv.DictReader(text)


@pytest.mark.parametrize("row", LAUNCHES, ids=lambda row: row["Kernel Name"][:40])
def test_launch_facts_equal_those_of_ncu(row: dict[str, str]) -> None:
    of_ncu = {
        name: to_base(float(cell.replace(",", "")), UNITS[name])[0]
        for name, cell in row.items()
        if re.fullmatch(r"[\d,]+(\.\d+)?", cell)
    }
    shared = "launch__shared_mem_per_block"
    static, dynamic = (round(of_ncu[f"{shared}_{kind}"]) for kind in ("static", "dynamic"))
    grid, block, cluster = (
        tuple(int(of_ncu[f"launch__{what}_dim_{axis}"]) for axis in "xyz")
        for what in ("grid", "block", "cluster")
    )
    launch = activity(
        row["Kernel Name"],
        grid=grid,
        block=block,
        registers_per_thread=int(of_ncu["launch__registers_per_thread"]),
        shared_memory_bytes=static + dynamic,
        static_shared_memory_bytes=static,
        shared_memory_per_sm=int(of_ncu["launch__shared_mem_config_size"]),
        cluster=cluster,
    )
    facts = launch_facts(launch, H200)
    # ncu rounds to two decimals in CSV.
    assert facts == pytest.approx({name: of_ncu[name] for name in facts}, abs=0.006)
    assert len(facts) == 15
