"""CUPTI's host library, if one is installed; Triton includes one, and it needs no GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_gpuperf.measure.counters.counter_source import names_to_read
from pytest_gpuperf.measure.cupti import chip_metrics
from pytest_gpuperf.measure.cupti.chip_metrics import NoHostLibraryError, is_counted, passes_each
from pytest_gpuperf.metrics import METRICS, ncu_metric_names
from pytest_gpuperf.metrics.presets import PRESETS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

KNOWN_TO_ALL_LIBRARIES = ["tu102", "ga100", "ga102", "ad102", "gh100", "gb100", "gb202"]
"""Chips with the same metrics in all libraries; one older than a chip may list fewer."""


def passes(chip: str, names: Sequence[str]) -> int | None:
    return passes_each(chip, [names])[0]


@pytest.mark.parametrize("chip", KNOWN_TO_ALL_LIBRARIES)
def test_metrics_know_their_chips(cupti_host_library: None, chip: str) -> None:
    units = {name.partition("__")[0] for name in chip_metrics.supported_metrics(chip)}
    sources = [
        (metric.name, source)
        for metric in METRICS.values()
        for source in metric.sources
        if source.requested and all(is_counted(name, units) for name in source.names)
    ]
    found = passes_each(chip, [source.names for _, source in sources])
    wrong = [
        name
        for (name, source), count in zip(sources, found, strict=True)
        if (count is not None) is not (chip in source.chips)
    ]
    assert wrong == []


@pytest.mark.parametrize("chip", KNOWN_TO_ALL_LIBRARIES)
def test_passes_of_the_presets_are_those_of_what_they_must_count(cupti_host_library: None, chip: str) -> None:
    """Neither the weights of means, nor pipes, conflicts and coalescing in the default, need another pass."""
    known = chip_metrics.supported_metrics(chip)
    units = {name.partition("__")[0] for name in known}
    alone = {preset: ncu_metric_names(names, chip) for preset, names in PRESETS.items()}
    weighted = {
        preset: [
            name
            for name in names_to_read(names, chip)
            if not is_counted(name, units) or name.partition(".")[0] in known
        ]
        for preset, names in PRESETS.items()
    }
    assert all(set(weighted[preset]) >= set(alone[preset]) for preset in PRESETS)
    free = ("pipe.", "bank_", "shared_wave", "global_")
    least = ncu_metric_names([name for name in PRESETS["default"] if not name.startswith(free)], chip)
    assert len(least) < len(alone["default"])
    *found, of_least = passes_each(chip, [*alone.values(), *weighted.values(), least])
    counts = dict(zip(PRESETS, found[: len(PRESETS)], strict=True))
    assert counts == dict(zip(PRESETS, found[len(PRESETS) :], strict=True))
    assert counts["one-pass"] == 1
    if chip not in ("tu102", "gb202"):
        assert counts["default"] == of_least
    if chip == "gh100":
        expected = {"default": 16, "sol": 9, "stalls": 7, "launch": 1, "occupancy": 1}
        assert expected.items() <= counts.items()


def test_only_counters_of_the_chip_take_passes(cupti_host_library: None) -> None:
    made_by_ncu = ["launch__registers_per_thread", "sm__maximum_warps_per_active_cycle_pct"]
    lists = [["dram__bytes"], ["dram__bytes.sum"], made_by_ncu]  # the first one lacks a suffix
    assert passes_each("gh100", lists) == [None, 1, 0]
    assert passes("gb202", ["dram__bytes.sum", "dram__bytes_read.sum"]) is None


def test_chip_that_no_library_knows_is_an_error(cupti_host_library: None) -> None:
    with pytest.raises(NoHostLibraryError, match="the CUPTI libraries here do not know GX999"):
        passes("gx999", ["dram__bytes.sum"])


def install(folder: Path, name: str = "libcupti.so.13") -> Path:
    folder.mkdir(parents=True)
    (folder / "libnvperf_host.so").touch()
    (folder / name).touch()
    return folder / name


def test_libraries_of_wheels_and_toolkits_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = install(tmp_path / "site" / "nvidia" / "cu13" / "lib")
    old_wheel = install(tmp_path / "site" / "nvidia" / "cuda_cupti" / "lib", "libcupti.so.12")
    toolkit = install(tmp_path / "cuda" / "extras" / "CUPTI" / "lib64")
    (tmp_path / "site" / "nvidia" / "alone" / "lib").mkdir(parents=True)
    (tmp_path / "site" / "nvidia" / "alone" / "lib" / "libcupti.so").touch()
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda"))
    found = [path for path in chip_metrics.libraries() if path.is_relative_to(tmp_path)]
    assert found == [old_wheel, wheel, toolkit]


def test_crashing_library_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = install(tmp_path / "broken")
    broken.write_bytes(b"garbage")
    monkeypatch.setattr(chip_metrics, "libraries", lambda: [broken])
    chip_metrics._ask.cache_clear()
    with pytest.raises(NoHostLibraryError, match=r"no CUPTI library was found .*pip install 'nvidia-cuda-cu"):
        chip_metrics.supported_metrics("gh100")
    chip_metrics._ask.cache_clear()
