"""Theoretical occupancy, compared with that in reports of ncu."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from pytest_gpuperf.features.ncu.report_reader import read_report
from pytest_gpuperf.measure.device.occupancy import occupancy
from pytest_gpuperf.metrics import short_metrics

CAPTURES = Path(__file__).parents[2] / "data" / "captures"


@pytest.mark.parametrize("name", ["profiling_pass/report", "triton_square_gemm_set_full"])
def test_occupancy_agrees_with_ncu_on_captures(name: str, tmp_path: Path) -> None:
    pytest.importorskip("ncu_report")
    path = tmp_path / "report.ncu-rep"
    path.write_bytes(gzip.decompress((CAPTURES / f"{name}.ncu-rep.gz").read_bytes()))
    kernels = read_report(path)
    for kernel in kernels:
        facts = {key: value for key, value in kernel.metrics.items() if not isinstance(value, str)}
        asked = {
            "block_size": int(facts["launch__block_size"]),
            "registers_per_thread": int(facts["launch__registers_per_thread"]),
            "shared_memory_per_block": int(
                facts["launch__shared_mem_per_block_static"] + facts["launch__shared_mem_per_block_dynamic"]
            ),
            "barriers": int(facts["launch__barrier_count"]),
        }
        configured = int(facts["launch__shared_mem_config_size"])
        result = occupancy((9, 0), **asked, shared_memory_per_sm=configured)
        assert result.limits == {name: facts[f"launch__occupancy_limit_{name}"] for name in result.limits}
        assert result.limiter == short_metrics(kernel.metrics, kernel.units)["occupancy_limiter"]
        # L1 did not get so much memory from the driver that fewer blocks fit.
        for found in (result, occupancy((9, 0), **asked)):
            assert found.theoretical_occupancy_pct == facts["sm__maximum_warps_per_active_cycle_pct"]
    assert len(kernels) >= 3
