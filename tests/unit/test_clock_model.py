"""The line of time over SM clock: its predictions, and samples without a line."""

from __future__ import annotations

import math

import numpy as np
import pytest

from present import present
from pytest_gpuperf.records import ClockModel
from pytest_gpuperf.statistics.clock_model import fit, normalisation_error, normalise

# Measured on an H200 with the SM clock of the batch: (µs, MHz) after idling, back to back, and right after
# 0.25 s of a heavy matrix product.
MEASURED = {
    "gemm 8192": ((1403.0, 1578.0), (1633.0, 1350.0), (1653.0, 1333.0)),
    "gemm 4096": ((173.6, 1636.0), (194.5, 1443.0), (209.7, 1339.0)),
    "gemm 2048": ((23.1, 1772.0), (23.9, 1692.0), (29.6, 1349.0)),
    "softmax 8192": ((275.5, 1978.0), (274.8, 1979.0), (345.2, 1486.0)),
    "square 8192": ((127.7, 1979.0), (127.4, 1979.0), (127.9, 1492.0)),
}


def fitted(*blocks: tuple[float, float], times: int = 8, reference_mhz: float | None = None) -> ClockModel:
    time_us, mhz = zip(*blocks * times, strict=True)
    return present(fit(time_us, mhz, reference_mhz=reference_mhz))


def noisy(
    rng: np.random.Generator, cycles: float, fixed_us: float, mhz: np.ndarray, noise: float
) -> list[float]:
    times = (cycles / mhz + fixed_us) * (1 + noise * rng.standard_normal(len(mhz)))
    return [float(time_us) for time_us in times]


@pytest.mark.parametrize("kernel", MEASURED)
def test_clocks_after_idling_and_burn_predict_the_time(kernel: str) -> None:
    idle, (time_us, mhz), burn = MEASURED[kernel]
    # The values themselves are rounded by up to 0.3 %.
    assert fitted(idle, burn).time_us(mhz) == pytest.approx(time_us, rel=0.008)


def test_share_shows_the_bound_of_a_kernel() -> None:
    shares = {kernel: fitted(*MEASURED[kernel]).sm_clock_share for kernel in MEASURED}
    assert shares["gemm 8192"] > 0.95
    assert 0.7 < shares["softmax 8192"] < 0.85
    assert shares["square 8192"] < 0.03


@pytest.mark.parametrize("kernel", MEASURED)
def test_normalised_times_at_different_clocks_agree(kernel: str) -> None:
    """Check normalised times; raw times differ by up to 28 %, cycles by up to 33 %."""
    model = fitted(*MEASURED[kernel])
    normalised = [normalise(time_us, mhz, model) for time_us, mhz in MEASURED[kernel]]
    assert max(normalised) / min(normalised) < 1.009


@pytest.mark.parametrize("noise", [0.001, 0.02])
def test_error_of_the_share_is_within_its_estimate(noise: float) -> None:
    rng = np.random.default_rng(2)
    true_share = 300_000 / 1700 / (300_000 / 1700 + 60)
    off = []
    for _ in range(200):
        mhz = rng.uniform(1350, 1980, 30)
        model = present(fit(noisy(rng, 300_000, 60.0, mhz, noise), mhz.tolist(), reference_mhz=1700))
        off.append((model.sm_clock_share - true_share) / model.share_error)
    assert np.mean(np.abs(off) < 2) > 0.93


def test_more_blocks_of_two_bursts_leave_the_share_uncertain() -> None:
    few, many = (fitted((100.0, 1980.0), (125.0, 1500.0), times=times) for times in (3, 300))
    assert many.share_error == pytest.approx(few.share_error)
    assert many.share_error > 0.005


def test_neither_part_is_below_zero() -> None:
    """Treat more cycles at a higher clock, and a time that grows with the clock, as noise."""
    latency_bound = fitted((100.0, 2000.0), (101.0, 1990.0), (136.0, 1500.0))
    memory_bound = fitted((100.3, 1980.0), (100.0, 1500.0))
    assert (latency_bound.fixed_us, latency_bound.sm_clock_share) == (0.0, 1.0)
    assert (memory_bound.cycles, memory_bound.sm_clock_share) == (0.0, 0.0)


def test_reference_is_the_median_clock_by_default() -> None:
    blocks = ((100.0, 1980.0), (110.0, 1700.0), (122.0, 1500.0))
    assert fitted(*blocks).reference_mhz == 1700
    assert fitted(*blocks, reference_mhz=1600).reference_mhz == 1600


@pytest.mark.parametrize(
    ("times_us", "mhz"),
    [
        ([100.0, 125.0], [1980.0, 1500.0]),
        ([0.0] * 20, [1980.0, 1500.0] * 10),
        ([100.0, 100.1] * 10, [1980.0] * 20),
        ([100.0, 100.1] * 10, [1980.0, 1980.0001] * 10),
        ([100.0, 100.4] * 50, [1980.0, 1972.0] * 50),  # the times vary as much at one clock
        ([100.0, 120.0, 130.0, 110.0] * 5, [1980.0, 1700.0, 1980.0, 1500.0] * 5),
    ],
    ids=["few blocks", "no time", "constant clock", "all but constant clock", "jitter of the clock", "noise"],
)
def test_uninformative_clocks_give_no_model(times_us: list[float], mhz: list[float]) -> None:
    assert fit(times_us, mhz) is None


def test_normalising_at_the_reference_changes_nothing_and_adds_no_error() -> None:
    model = ClockModel(cycles=300_000, fixed_us=40.0, reference_mhz=1700, share_error=0.1)
    assert normalise(217.0, 1700, model) == pytest.approx(217.0)
    assert normalisation_error(1700, model) == 0
    assert normalisation_error(1500, model, 1500) == 0


def test_a_time_goes_with_the_ratio_of_the_models_times() -> None:
    bound_by_compute = ClockModel(cycles=170_000, fixed_us=0.0, reference_mhz=1700)
    bound_by_memory = ClockModel(cycles=0.0, fixed_us=100.0, reference_mhz=1700)
    assert normalise(110.0, 1530, bound_by_compute) == pytest.approx(99.0)
    assert normalise(110.0, 1530, bound_by_compute, 1530) == pytest.approx(110.0)
    assert normalise(110.0, 1530, bound_by_memory) == pytest.approx(110.0)


@pytest.mark.parametrize("reference_mhz", [None, 1980.0])
def test_normalisation_error_is_the_effect_of_a_wrong_share(reference_mhz: float | None) -> None:
    def model(share: float) -> ClockModel:
        return ClockModel(
            cycles=share * 200 * 1700, fixed_us=(1 - share) * 200, reference_mhz=1700, share_error=1e-4
        )

    low, high = (normalise(230.0, 1450, model(share), reference_mhz) for share in (0.6, 0.6 + 1e-4))
    error = normalisation_error(1450, model(0.6), reference_mhz)
    assert error == pytest.approx(abs(math.log(high / low)), rel=1e-3)
