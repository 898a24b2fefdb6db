from __future__ import annotations

from pytest_gpuperf.metrics.chips import CHIPS, chip_of


def test_unknown_compute_capability_has_no_chip() -> None:
    assert chip_of("99.0") is None
    assert [chip_of(chip.compute_capability) for chip in CHIPS] == list(CHIPS)
