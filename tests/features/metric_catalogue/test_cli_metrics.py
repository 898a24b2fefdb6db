from __future__ import annotations

import json

import pytest
from inline_snapshot import snapshot

from command_line import gpuperf
from pytest_gpuperf.measure.cupti import chip_metrics
from pytest_gpuperf.metrics import METRICS
from pytest_gpuperf.metrics.presets import PRESETS


def shown(*arguments: str, status: int = 0) -> str:
    return gpuperf("metrics", *arguments, status=status).output


def test_metrics_are_grouped_by_section_of_ncu() -> None:
    text = shown()
    assert text.splitlines()[-1] == f"{len(METRICS)} metrics; --chip shows the names and passes of one chip"
    speed = text.partition("SpeedOfLight\n")[2]
    assert speed.startswith("  duration_us")
    assert all(f"\n  {name} " in text for name in METRICS)


def test_metric_shows_its_names_on_all_chips() -> None:
    assert shown("--find", "dram bytes read").splitlines() == snapshot(
        [
            "  metric           unit  better  tier",
            "--------------------------------------",
            "MemoryWorkloadAnalysis_Tables",
            "  dram_read_bytes  byte  lower   state",
            "      bytes read from DRAM",
            "      dram__bytes_read.sum",
            "      dram__bytes_op_read.sum on gb202",
            "      not on ga10b, gb10b, gb20b",
            "",
            "1 metric; --chip shows the names and passes of one chip",
        ]
    )


def test_chip_has_its_own_names_and_passes(cupti_host_library: None) -> None:
    assert shown("--chip", "gb202", "--find", "dram bytes read").splitlines() == snapshot(
        [
            "  metric           unit  better  tier   passes",
            "----------------------------------------------",
            "MemoryWorkloadAnalysis_Tables",
            "  dram_read_bytes  byte  lower   state  1 pass",
            "      bytes read from DRAM",
            "      dram__bytes_op_read.sum",
            "",
            "1 metric, 1 pass together on GB202",
        ]
    )


def test_missing_metric_is_unavailable_on_the_chip(cupti_host_library: None) -> None:
    text = shown("--chip", "12.0", "--find", "matrix warpgroup")
    assert "  stall.gmma  %     state  unavailable on GB202\n" in text
    assert text.endswith("1 metric, 0 passes together on GB202\n")


def test_preset_shows_its_passes(cupti_host_library: None) -> None:
    text = shown("--chip", "GH100", "--preset", "one-pass")
    assert text.splitlines()[-1] == f"{len(PRESETS['one-pass'])} metrics, 1 pass together on GH100"


def test_missing_library_names_the_package_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chip_metrics, "libraries", list)
    chip_metrics._ask.cache_clear()
    text = shown("--chip", "gh100", "--find", "gmma")
    chip_metrics._ask.cache_clear()
    assert "smsp__average_warps_issue_stalled_gmma_per_issue_active.ratio" in text
    assert "passes are not known: no CUPTI library was found here" in " ".join(text.split())
    assert "pip install 'nvidia-cuda-cupti<13.2'" in " ".join(text.split())


def test_json_has_the_values_of_the_table(cupti_host_library: None) -> None:
    (row,) = json.loads(shown("--chip", "gh100", "--find", "l2_hit_rate", "--json"))
    assert row["ncu"] == ["lts__t_sector_hit_rate.pct"]
    assert (row["unit"], row["better"], row["tier"]) == ("%", "higher", "state")
    assert (row["available"], row["passes"]) == (True, 2)
    assert row["presets"] == ["default", "memory"]
    assert "gb20b" in row["chips"]
    (elsewhere,) = json.loads(shown("--chip", "ga100", "--find", "stall.gmma", "--json"))
    assert (elsewhere["available"], elsewhere["passes"], elsewhere["ncu"]) == (False, None, [])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--find", "coffee"], "no metric has 'coffee' in a name"),
        (["--chip", "gx1"], "there is no chip 'gx1'; expected one of gv100"),
        (["--preset", "sol,stals"], "there is no preset 'stals' in --preset; expected one or more"),
    ],
)
def test_unknown_names_are_refused(arguments: list[str], said: str) -> None:
    assert said in shown(*arguments, status=2)


@pytest.mark.parametrize("text", ["GA104", "ga10x", "8.6"])
def test_chip_is_found_by_name_family_and_compute_capability(text: str) -> None:
    assert "unavailable on GA102" in shown("--chip", text, "--find", "matrix warpgroup")
