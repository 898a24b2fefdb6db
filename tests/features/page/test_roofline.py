"""The roofline of a call, checked by values that ncu itself reports."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from present import present
from pytest_gpuperf.features.ncu.report_file import read_report
from pytest_gpuperf.features.ncu.report_reader import read_report as read_raw
from pytest_gpuperf.features.page.picture import Points, Polyline
from pytest_gpuperf.features.page.roofline_picture import roofline
from pytest_gpuperf.metrics import short_metrics
from pytest_gpuperf.records import MetricValue

CAPTURE = Path(__file__).parents[2] / "data" / "captures" / "triton_square_gemm_set_full.ncu-rep.gz"
Counters = dict[str, MetricValue]


@pytest.fixture(scope="module")
def gemm() -> Counters:
    pytest.importorskip("ncu_report")
    return dict(read_report(CAPTURE)[1].metrics)


def test_ceilings_equal_those_of_ncu(tmp_path: Path) -> None:
    pytest.importorskip("ncu_report")
    file = tmp_path / "full.ncu-rep"
    file.write_bytes(gzip.decompress(CAPTURE.read_bytes()))
    for kernel in read_raw(file):
        raw = {name: value for name, value in kernel.metrics.items() if not isinstance(value, str)}
        found = short_metrics(kernel.metrics, kernel.units)
        for kind, name in {
            "fp16": "op_hgmma_src_fp16_sparsity_off",
            "bf16": "op_hgmma_src_bf16_dst_fp32_sparsity_off",
            "tf32": "op_hgmma_src_tf32_dst_fp32_sparsity_off",
            "fp8": "src_fp8_sparsity_off",
            "fp64": "src_fp64",
            "int8": "op_igmma_src_int8_sparsity_off",
        }.items():
            own = raw[f"sm__ops_path_tensor_{name}.sum.peak_sustained_elapsed.per_second"]
            assert found[f"ceiling.tensor_{kind}"] == pytest.approx(own * 1e-12)
        cores = raw["derived__sm__sass_thread_inst_executed_op_ffma_pred_on_x2"]
        clock = raw["sm__cycles_elapsed.avg.per_second"]
        assert found["ceiling.fp32"] == pytest.approx(cores * clock * 1e-12)
        l1 = raw["derived__l1tex__lsu_writeback_bytes_mem_lgds.sum.peak_sustained"]
        assert found["ceiling.l1"] == pytest.approx(l1 * raw["l1tex__cycles_elapsed.avg.per_second"] * 1e-9)


def test_points_are_work_over_traffic_and_time(gemm: Counters) -> None:
    dram, l2, l1 = (mark for mark in present(roofline(gemm, {})).marks if isinstance(mark, Points))
    # 2 · 4096³ operations in 200.864 µs, 148,374,272 bytes of DRAM.
    assert [*dram.y, *l2.y, *l1.y] == pytest.approx([684.2] * 3, abs=0.1)
    assert dram.x[0] == pytest.approx(926.3, abs=0.1)
    assert l2.x[0] < dram.x[0] < l1.x[0]
    assert dram.name == "DRAM, 70 % of its roof"


def test_roofs_meet_the_highest_ceiling(gemm: Counters) -> None:
    lines = {mark.name: mark for mark in present(roofline(gemm, {})).marks if isinstance(mark, Polyline)}
    assert list(lines)[:3] == ["DRAM 4.81 TB/s", "L2 10.3 TB/s", "L1 30.7 TB/s"]
    highest = lines["float8, int8 tensor 1967"].y[0]
    assert lines["DRAM 4.81 TB/s"].y[1] == pytest.approx(highest)
    assert lines["float8, int8 tensor 1967"].dashed  # the kernel has no operation of this type
    assert not lines["bfloat16, float16 tensor 983"].dashed


def test_run_without_ceilings_has_no_roofline() -> None:
    counters: Counters = {"dram_bytes": 1e8, "duration_us": 210.0, "flops.fp32": 1e9}
    assert roofline(counters, {}) is None
    assert roofline({**counters, "ceiling.dram": 4000.0}, {}) is not None
