"""Facts of launches, compared with ncu's facts of the same launches on an H200."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fake_cupti import activity
from pytest_gpuperf.measure.counters.launch_facts import launch_facts
from pytest_gpuperf.measure.ncu.csv_reader import read_csv
from pytest_gpuperf.records import GpuInfo

if TYPE_CHECKING:
    from pytest_gpuperf.measure.ncu.raw_kernel import RawKernel

CAPTURE = Path(__file__).parents[1] / "data" / "captures" / "torch_mixed_raw_wide.csv.gz"
H200 = GpuInfo(name="NVIDIA H200", slug="nvidia-h200", compute_capability="9.0", multiprocessors=132)


def captured() -> list[RawKernel]:
    return read_csv(gzip.decompress(CAPTURE.read_bytes()).decode())


@pytest.mark.parametrize("kernel", captured(), ids=lambda kernel: kernel.name[:40])
def test_launch_facts_equal_those_of_ncu(kernel: RawKernel) -> None:
    of_ncu = {name: value for name, value in kernel.metrics.items() if not isinstance(value, str)}
    shared = "launch__shared_mem_per_block"
    static, dynamic = (round(of_ncu[f"{shared}_{kind}"]) for kind in ("static", "dynamic"))
    launch = activity(
        kernel.name,
        grid=kernel.grid,
        block=kernel.block,
        registers_per_thread=int(of_ncu["launch__registers_per_thread"]),
        shared_memory_bytes=static + dynamic,
        static_shared_memory_bytes=static,
        shared_memory_per_sm=int(of_ncu["launch__shared_mem_config_size"]),
        cluster=tuple(int(of_ncu[f"launch__cluster_dim_{axis}"]) for axis in "xyz"),
    )
    facts = launch_facts(launch, H200)
    # ncu rounds to two decimals in CSV.
    assert facts == pytest.approx({name: of_ncu[name] for name in facts}, abs=0.006)
    assert len(facts) == 15
