from __future__ import annotations

import pytest

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.metrics import METRICS, ncu_metric_names
from pytest_gpuperf.metrics.presets import PRESETS, PURPOSES, check_presets


def test_presets_hold_each_metric_once() -> None:
    for names in PRESETS.values():
        assert set(names) <= set(METRICS) - {"kernels"}
        assert len(set(names)) == len(names)


def test_presets_of_metrics_are_those_with_a_purpose() -> None:
    assert {name for metric in METRICS.values() for name in metric.presets} == set(PURPOSES) == set(PRESETS)


def test_every_preset_has_the_duration_to_weight_means() -> None:
    for names in PRESETS.values():
        assert "duration_us" in names
        if any(metric.startswith("stall.") for metric in names):
            assert {"instructions", "warp_cycles_per_instruction"} <= set(names)


def test_launch_preset_needs_no_counter_except_the_time() -> None:
    counted = [raw for raw in ncu_metric_names(PRESETS["launch"]) if not raw.startswith("launch__")]
    assert sorted(counted) == ["gpu__time_duration.sum", "sm__maximum_warps_per_active_cycle_pct"]


@pytest.mark.parametrize("names", [["sol", "stals"], [""], []])
def test_unknown_preset_is_an_error_that_lists_all(names: list[str]) -> None:
    with pytest.raises(GpuperfError, match=r"here; expected one or more of default, sol, occupancy"):
        check_presets(names, "here")
