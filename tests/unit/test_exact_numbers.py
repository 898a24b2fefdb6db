"""Exact numbers of the statistics, for inputs whose results are known."""

from __future__ import annotations

import math

import pytest
from scipy.stats import t as scipy_t

from present import present
from pytest_gpuperf.statistics.clock_model import fit
from pytest_gpuperf.statistics.decision import t_tail

# Half of 100 µs at 2000 MHz is SM cycles: a line without noise.
MHZ = (1600.0, 2000.0, 2400.0)
LINE = [50 + 100_000 / mhz for mhz in MHZ]


@pytest.mark.parametrize("times", [2, 8])
def test_share_without_noise_has_the_least_error_of_times(times: int) -> None:
    """All blocks together have an error of 0.15 %, however many they are."""
    model = present(fit(LINE * times, MHZ * times, reference_mhz=2000))
    assert [model.cycles, model.fixed_us] == pytest.approx([100_000, 50])
    # The slope of three relative times with an error of 0.15 % √3 each, in closed form.
    rows = [(50 * 2000 / mhz / us, 50 / us) for mhz, us in zip(MHZ, LINE, strict=True)]
    aa, ab, bb = (sum(x[i] * x[j] for x in rows) for i, j in ((0, 0), (0, 1), (1, 1)))
    variance_of_share = (aa + 2 * ab + bb) / (4 * (aa * bb - ab * ab)) / 4
    assert model.share_error == pytest.approx(0.0015 * math.sqrt(3 * variance_of_share), rel=1e-6)


def test_error_of_a_share_has_the_noise_of_its_blocks() -> None:
    """Twice the blocks halve the squares of errors, and two of them are spent on the line."""
    noisy = [time * (1 + 0.02 * sign) for sign in (1, -1) for time in LINE]
    six, twelve = (present(fit(noisy * times, MHZ * 2 * times)) for times in (1, 2))
    assert six.share_error / twelve.share_error == pytest.approx(math.sqrt(2 * (6 / 4) / (12 / 10)), rel=0.03)


@pytest.mark.parametrize("df", [1, 2, 3, 4, 9, 14, 30])
def test_t_distribution_agrees_with_scipy(df: int) -> None:
    for value in (-3.0, -0.5, 0.0, 0.3, 1.0, 2.5, 10.0):
        assert t_tail(df, value) == pytest.approx(scipy_t.sf(value, df), rel=1e-6)
