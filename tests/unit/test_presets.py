from __future__ import annotations

import re

import pytest

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.metrics import METRICS, ncu_metric_names
from pytest_gpuperf.metrics.presets import PRESETS, PURPOSES, check_presets, metrics_of
from pytest_gpuperf.settings.options import OPTIONS


def test_presets_hold_metrics_of_the_catalogue_each_once() -> None:
    for names in PRESETS.values():
        assert set(names) <= set(METRICS) - {"kernels"}
        assert len(set(names)) == len(names)


def test_every_preset_is_explained_and_named_in_the_help() -> None:
    assert list(PRESETS) == list(PURPOSES)
    shown = next(option.help for option in OPTIONS if option.name == "preset")
    assert re.findall(r"[\w-]+", shown.partition(": ")[2]) == list(PRESETS)


def test_several_kernels_can_be_weighed_in_every_preset() -> None:
    for names in PRESETS.values():
        assert "duration_us" in names
        if any(metric.startswith("stall.") for metric in names):
            assert {"instructions", "warp_cycles_per_instruction"} <= set(names)


def test_the_launch_preset_asks_for_what_ncu_makes_itself_beside_the_time() -> None:
    counted = [raw for raw in ncu_metric_names(PRESETS["launch"]) if not raw.startswith("launch__")]
    assert sorted(counted) == ["gpu__time_duration.sum", "sm__maximum_warps_per_active_cycle_pct"]


def test_presets_together_have_each_metric_once() -> None:
    both = metrics_of(["sol", "stalls"])
    assert set(both) == {*PRESETS["sol"], *PRESETS["stalls"]}
    assert len(both) == len(set(both))


@pytest.mark.parametrize("names", [["sol", "stals"], [""], []])
def test_what_is_no_preset_is_named(names: list[str]) -> None:
    with pytest.raises(GpuperfError, match=r"here; expected one or more of default, sol, occupancy"):
        check_presets(names, "here")
