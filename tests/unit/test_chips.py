from __future__ import annotations

from typing import get_args

import pytest

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.metrics.chips import CHIPS, Feature, chip_name, chip_of, find_chip, has


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("gh100", "gh100"),
        ("GH100", "gh100"),
        ("9.0", "gh100"),
        ("ga104", "ga102"),
        ("ga10x", "ga102"),
        ("ga10b", "ga10b"),
        ("tu10x", "tu102"),
        ("ad10x", "ad102"),
        ("gb10x", "gb100"),
        ("gb11x", "gb110"),
        ("gb20x", "gb202"),
        ("12.1", "gb20b"),
    ],
)
def test_chip_is_found_by_name_family_and_compute_capability(text: str, name: str) -> None:
    assert find_chip(text).name == name


@pytest.mark.parametrize("text", ["", "x", "gh200", "gb", "9", "hopper", "gax", "ga10"])
def test_unknown_chip_is_an_error(text: str) -> None:
    with pytest.raises(GpuperfError, match=r"there is no chip .*expected one of gv100, tu102"):
        find_chip(text)


def test_unknown_compute_capability_has_no_chip() -> None:
    assert chip_of("99.0") is None
    assert [chip_of(chip.compute_capability) for chip in CHIPS] == list(CHIPS)


@pytest.mark.parametrize(
    ("compute_capability", "gpu", "features"),
    [
        ("6.1", "Tesla P40", set()),
        ("7.0", "Tesla V100-SXM2-16GB", {"tensor cores"}),
        ("7.5", "Tesla T4", {"tensor cores"}),
        ("7.5", "Quadro T1000", set()),
        ("7.5", "NVIDIA GeForce GTX 1650", set()),
        ("8.0", "NVIDIA A100-PCIE-40GB", {"tensor cores", "TF32"}),
        ("8.6", "", {"tensor cores", "TF32"}),
        ("9.0", "", {"tensor cores", "TF32"}),
    ],
)
def test_features_of_a_gpu_follow_from_its_chip(
    compute_capability: str, gpu: str, features: set[str]
) -> None:
    chip = chip_name(compute_capability, gpu)
    assert {feature for feature in get_args(Feature) if has(chip, feature)} == features


def test_features_of_an_unknown_chip_are_unknown() -> None:
    assert chip_name("") == chip_name("99.0") == ""
    assert has("", "TF32") is None
