from __future__ import annotations

import pytest

from pytest_gpuperf.metrics import METRICS
from pytest_gpuperf.metrics.chips import OF_TYPE, SPARSE, Peaks, peaks_of
from pytest_gpuperf.records import GpuInfo


def gpu(compute_capability: str, multiprocessors: int = 1, dram_gb_per_s: float = 0.0) -> GpuInfo:
    return GpuInfo(
        name="x",
        slug="x",
        compute_capability=compute_capability,
        multiprocessors=multiprocessors,
        dram_gb_per_s=dram_gb_per_s,
    )


@pytest.mark.parametrize(
    ("capability", "multiprocessors", "mhz", "float16", "fastest"),
    [
        ("7.0", 80, 1530, 125, 125),  # Tesla V100 SXM2
        ("7.5", 40, 1590, 65, 260),  # T4: int4
        ("8.0", 108, 1410, 312, 2496),  # A100: sparse int4
        ("8.6", 72, 1695, 125, 1000),  # A10: sparse int4
        ("9.0", 132, 1830, 989.5, 3958),  # H100 SXM and H200: sparse float8
    ],
)
def test_peaks_are_those_of_the_data_sheets(
    capability: str, multiprocessors: int, mhz: int, float16: float, fastest: float
) -> None:
    peaks = peaks_of(gpu(capability, multiprocessors), mhz)
    assert peaks.float16_tflop_per_s / SPARSE == pytest.approx(float16, rel=0.01)
    assert peaks.tflop_per_s == pytest.approx(fastest, rel=0.01)


def test_unknown_chip_has_only_the_peak_of_its_memory() -> None:
    assert peaks_of(gpu("13.0", 100, 9000.0), 2000) == Peaks(dram_gb_per_s=9000.0)
    assert peaks_of(gpu("9.0", 132), 0) == Peaks()


def test_rates_of_types_name_metrics_that_exist() -> None:
    assert OF_TYPE.keys() <= METRICS.keys()
