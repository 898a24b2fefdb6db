from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from inline_snapshot import snapshot
from msgspec.structs import replace

from command_line import gpuperf
from pytest_gpuperf.records import GpuInfo, KernelProfile, Measurement, Profile, Run
from pytest_gpuperf.records.run_store import RunStore
from run_builders import record, run, timing

if TYPE_CHECKING:
    from pytest_gpuperf.records import MetricValue

CAPTURES = Path(__file__).parents[2] / "data" / "captures"
NODEID = "t/test_a.py::test_square"
FAST: dict[str, MetricValue] = {
    "duration_us": 50.0,
    "sm_throughput": 10.0,
    "memory_throughput": 85.0,
    "dram_throughput": 85.0,
    "waves": 8.0,
    "registers_per_thread": 32.0,
}
SLOW: dict[str, MetricValue] = {
    **FAST,
    "memory_throughput": 40.0,
    "dram_throughput": 40.0,
    "duration_us": 90.0,
}


def measured(metrics: dict[str, MetricValue], time_us: float, name: str = "square_kernel") -> Measurement:
    kernels = (KernelProfile(name=name, metrics=metrics),)
    return Measurement(timing=timing(time_us), profile=Profile(kernels=kernels, combined=metrics))


def store(project: Path, *tests: Measurement) -> Run:
    names = [NODEID, "t/test_a.py::test_other"]
    kept = run(*(record(name, main=one) for name, one in zip(names, tests, strict=False)))
    RunStore(project / ".gpuperf").write(kept)
    return kept


def shown(*arguments: str, status: int = 0) -> list[str]:
    return gpuperf("explain", *arguments, status=status).output.splitlines()


def facts(*arguments: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads("\n".join(shown(*arguments, "--json")))
    return rows


def test_many_tests_are_cut_with_a_hint(project: Path) -> None:
    tests = (record(f"{NODEID}[{size}]", main=measured(FAST, 50.0)) for size in range(21))
    RunStore(project / ".gpuperf").write(run(*tests))
    lines = shown()
    assert sum(line.startswith(NODEID) for line in lines) == 20
    assert lines[-1] == "1 more: choose with gpuperf explain latest::TEST, --json has all"
    assert len({row["test"] for row in facts()}) == 21


def test_newest_run_is_explained_test_by_test(project: Path) -> None:
    store(project, measured(FAST, 50.0))
    assert "\n".join(shown()) == snapshot("""\
NVIDIA H200, triton 3.6, commit c0ffee1

  kernel            time
------------------------
t/test_a.py::test_square
  square_kernel  50.0 µs
      memory-bound: DRAM is at 85 % of its peak
        next: fewer bytes: neighbouring kernels fused, smaller types, what is read twice kept in L2\
""")
    assert shown("latest") == shown() == shown(f".gpuperf/runs/{run().id}/run.json")
    assert json.loads("\n".join(shown("--json"))) == snapshot(
        [
            {
                "gpu": "nvidia-h200",
                "test": "t/test_a.py::test_square",
                "label": "main",
                "kernel": "square_kernel",
                "launch": None,
                "launches": 1,
                "time_us": 50.0,
                "share_pct": None,
                "rule": "memory-bound",
                "text": "DRAM is at 85 % of its peak",
                "next_step": "fewer bytes: neighbouring kernels fused, smaller types, what is read twice kept in L2",  # noqa: E501
            }
        ]
    )


def test_test_is_chosen_by_name_or_kernel(project: Path) -> None:
    store(project, measured(FAST, 50.0), measured(FAST, 50.0, name="other_kernel"))
    assert [text for text in shown("latest", "::test_sq") if "::" in text] == [NODEID]
    assert [text for text in shown("latest", "^other_k") if "::" in text] == ["t/test_a.py::test_other"]
    assert [text for text in shown("::test_square") if "::" in text] == [NODEID]
    assert [text for text in shown("::test_other", "^other_k") if "::" in text] == ["t/test_a.py::test_other"]
    (error,) = shown("::test_square", "^other_k", status=2)
    assert "has no counters of a test or kernel '^other_k'" in error
    (error,) = shown("latest", "coffee", status=2)
    assert "has no counters of a test or kernel 'coffee'" in error
    store(project, Measurement(timing=timing(50.0)))
    (error,) = shown(status=2)
    assert "has no counters of any test, and no kernel table; expected tests that were profiled" in error


def unpacked(name: str, folder: Path) -> str:
    path = folder / name.removesuffix(".gz")
    path.write_bytes(gzip.decompress((CAPTURES / name).read_bytes()))
    return str(path)


def test_ncu_report_is_explained(project: Path) -> None:
    pytest.importorskip("ncu_report")
    report = unpacked("triton_square_gemm_set_full.ncu-rep.gz", project)
    assert "\n".join(shown(report, "matmul")) == snapshot("""\
NVIDIA H200 (compute capability 9.0), ncu 2025.3.1.0, SM clock 1785 to 1786 MHz

kernel              time  share
-------------------------------
#1 matmul_kernel  201 µs   42 %
    memory-bound: L2 is at 83 % of its peak
      next: fewer bytes through L2: larger tiles, shared memory, fused kernels, multicast (since
      Hopper)
#2 matmul_kernel  276 µs   58 %
    memory-bound: L2 is at 87 % of its peak
      next: fewer bytes through L2: larger tiles, shared memory, fused kernels, multicast (since
      Hopper)\
""")


def test_merged_run_has_a_table_for_each_gpu(project: Path) -> None:
    for slug in ("nvidia-a", "nvidia-b"):
        made = run(record(NODEID, main=measured(FAST, 50.0)), gpu=GpuInfo(name=slug.upper(), slug=slug))
        RunStore(project / "state").write(replace(made, id=slug))
    merged = project / "state" / "runs"
    text = gpuperf("explain", str(merged), status=0)
    assert re.findall("^NVIDIA-.", text.output, re.MULTILINE) == ["NVIDIA-A", "NVIDIA-B"]
    data = json.loads(gpuperf("explain", str(merged), "--json").output)
    assert [(one["gpu"], one["test"]) for one in data] == [("nvidia-a", NODEID), ("nvidia-b", NODEID)]
    one_gpu = gpuperf("explain", str(merged / "nvidia-b"), "--json")
    assert [one["gpu"] for one in json.loads(one_gpu.output)] == ["nvidia-b"]
