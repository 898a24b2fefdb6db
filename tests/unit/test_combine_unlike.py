"""Several launches as one row: words, missing metrics, and metrics with only a raw name."""

from __future__ import annotations

import pytest

from pytest_gpuperf.metrics import Combining
from pytest_gpuperf.metrics.combination import combine, combining_of
from run_builders import launches


def test_metric_that_one_launch_lacks_is_left_out() -> None:
    combined = combine(launches({"dram_bytes": 1.0, "instructions": 2.0}, {"instructions": 2.0}))
    assert combined == {"kernels": 2.0, "instructions": 4.0}


def test_percentage_without_durations_is_left_out() -> None:
    assert combine(launches({"sm_throughput": 10.0}, {"sm_throughput": 20.0})) == {"kernels": 2.0}


@pytest.mark.parametrize(
    ("name", "combining"),
    [
        ("sm__inst_executed_pipe_fma.sum", Combining.SUM),
        ("launch__grid_size", Combining.SUM),
        ("sm__cycles_active.max", Combining.MAX),
        ("sm__cycles_active.min", Combining.MIN),
        ("lts__t_sector_op_read_hit_rate.pct", Combining.MEAN),
        ("sm__throughput.max.pct_of_peak_sustained_elapsed", Combining.MEAN),
        ("dram__bytes.sum.per_second", Combining.MEAN),
        ("sm__cycles_active.avg", Combining.SUM),
        ("smsp__average_warps_issue_stalled_wait_per_issue_active.ratio", Combining.MEAN),
        ("launch__cluster_size", Combining.MAX),
        ("device__attribute_clock_rate", Combining.SAME),
    ],
)
def test_suffix_of_a_raw_name_tells_how_it_combines(name: str, combining: Combining) -> None:
    assert combining_of(name) is combining


def test_unknown_numbers_that_differ_are_left_out() -> None:
    name = "smsp__pcsamp_sample_buffer_full"
    assert combine(launches({name: 1.0}, {name: 2.0})) == {"kernels": 2.0}
