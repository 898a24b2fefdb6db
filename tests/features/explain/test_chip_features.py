from __future__ import annotations

from typing import get_args

import pytest

from pytest_gpuperf.features.explain.chip_features import Feature, chip_name, has


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
