"""Time as a function of the SM clock, fitted to blocks that ran at different clocks.

GPUs change their clock with power and temperature. A kernel bound by arithmetic then needs a fixed number of
cycles, one bound by memory a fixed time. One line fits both, and kernels in between:
`t = cycles / f + fixed_us`.
"""

from __future__ import annotations

from math import hypot, sqrt
from operator import mul
from statistics import median
from typing import TYPE_CHECKING, Annotated

import msgspec

from pytest_gpuperf.statistics.thresholds import ALIKE_PCT, NOISY_PCT

if TYPE_CHECKING:
    from collections.abc import Sequence

LEAST_ERROR = ALIKE_PCT / 100
"""Minimum relative error of the times of a fit, however many blocks there are: blocks of one burst agree
better with each other than with the line, as those of one restart."""
LEAST_SHARE_ERROR = ALIKE_PCT / 10
"""Minimum error of a share between processes: a clock that differs by 10 % leaves `ALIKE_PCT` uncertain."""
MOST_SHARE_ERROR = NOISY_PCT / 10
"""Maximum error of a share, and difference of shares that counts as none: beyond it, a clock that differs by
10 % leaves more of a time uncertain than the screen below the full clock."""


class ClockModel(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Time of a call as a function of the SM clock: `t = cycles / f + fixed_us`.

    The line holds for kernels bound by arithmetic, by memory and by both (see `fit`).
    """

    cycles: Annotated[float, msgspec.Meta(ge=0, le=1e16)]
    """SM cycles (microseconds times MHz) that a call spends at the SM clock."""
    fixed_us: Annotated[float, msgspec.Meta(ge=0, le=1e12)]
    """Microseconds that do not depend on the SM clock: memory, mostly."""
    reference_mhz: Annotated[float, msgspec.Meta(ge=1, le=10_000)]
    """The SM clock that normalised times are brought to."""
    share_error: Annotated[float, msgspec.Meta(ge=0, le=MOST_SHARE_ERROR)] = 0.0
    """Standard error of `sm_clock_share` at the reference clock."""
    stored: bool = False
    """True if it is the model of a stored session, which spared blocks at other clocks."""

    def __post_init__(self) -> None:
        """Refuse a model without any time, which a file may have."""
        if not (self.cycles or self.fixed_us):
            raise ValueError("cycles and fixed_us are both 0")

    def time_us(self, sm_clock_mhz: float) -> float:
        """Return the time of a call, in microseconds, at an SM clock in MHz."""
        return self.cycles / sm_clock_mhz + self.fixed_us

    @property
    def sm_clock_share(self) -> float:
        """Share of the time, from 0 to 1, that depends on the SM clock.

        Near 1 if compute or latency bounds the kernel, near 0 if memory does.
        """
        return self.share_at(self.reference_mhz)

    def share_at(self, sm_clock_mhz: float) -> float:
        """Return the same share at another SM clock, in MHz."""
        return self.cycles / sm_clock_mhz / self.time_us(sm_clock_mhz)


def fit(
    times_us: Sequence[float], mhz: Sequence[float], *, reference_mhz: float | None = None
) -> ClockModel | None:
    """Fit `t = cycles / f + fixed_us` by least squares with both parts at least 0.

    Errors are relative, so that a block counts the same at any clock. The error of the share is that of the
    line without its bounds: exact if neither is met, and of the right size at a bound. The reference clock is
    by default the median of the blocks' clocks.

    Returns:
        None if the clocks do not tell: fewer than 3 blocks, one that took no time, a clock that hardly moved,
        or noise that hides its effect.
    """
    if len(times_us) < 3 or min(times_us) <= 0 or max(mhz) - min(mhz) <= LEAST_ERROR * min(mhz):
        return None
    reference = median(mhz) if reference_mhz is None else reference_mhz
    # Each block is one equation: the relative times of the two parts at the reference clock add up to 1.
    moving = [reference / clock / time for time, clock in zip(times_us, mhz, strict=True)]
    fixed = [1 / time for time in times_us]
    aa, ab, bb = (sum(map(mul, *pair)) for pair in ((moving, moving), (moving, fixed), (fixed, fixed)))
    a, b = sum(moving), sum(fixed)
    determinant = aa * bb - ab * ab
    moving_us, fixed_us = (a * bb - b * ab) / determinant, (b * aa - a * ab) / determinant
    if min(moving_us, fixed_us) < 0:
        moving_us, fixed_us = (0.0, b / bb) if moving_us < 0 else (a / aa, 0.0)
    residuals = [1 - one * moving_us - other * fixed_us for one, other in zip(moving, fixed, strict=True)]
    noise = hypot(hypot(*residuals) / sqrt(len(fixed) - 2), LEAST_ERROR * sqrt(len(fixed)))
    total_us = moving_us + fixed_us
    slope = fixed_us / total_us**2, -moving_us / total_us**2
    spread = (slope[0] ** 2 * bb - 2 * slope[0] * slope[1] * ab + slope[1] ** 2 * aa) / determinant
    share_error = noise * sqrt(spread)
    if share_error > MOST_SHARE_ERROR:
        return None
    return ClockModel(
        cycles=moving_us * reference, fixed_us=fixed_us, reference_mhz=reference, share_error=share_error
    )


def pool_models(models: Sequence[ClockModel], reference_mhz: float) -> ClockModel:
    """Pool models of one call, fitted by several processes, into one with their mean share.

    A process fits the share with an error of its own; by one share for all, times of the same code differ
    less. The mean is weighted by the inverse variances.

    Returns:
        A model whose time is 1 µs at the reference clock: only its share counts.
    """
    shares = [model.share_at(reference_mhz) for model in models]
    weights = [1 / (LEAST_SHARE_ERROR**2 + model.share_error**2) for model in models]
    share = sum(map(mul, weights, shares)) / sum(weights)
    spread = sum(weight * (each - share) ** 2 for weight, each in zip(weights, shares, strict=True))
    # If the models differ by more than their errors, the errors are too small.
    error = sqrt(max(1.0, spread / max(1, len(models) - 1)) / sum(weights))
    return ClockModel(
        cycles=share * reference_mhz, fixed_us=1 - share, reference_mhz=reference_mhz, share_error=error
    )


def scaled(model: ClockModel, time_us: float, mhz: float) -> ClockModel:
    """Return a model with the same share, and with a time in microseconds at an SM clock in MHz."""
    factor = time_us / model.time_us(mhz)
    return msgspec.structs.replace(model, cycles=model.cycles * factor, fixed_us=model.fixed_us * factor)


def normalise(time_us: float, mhz: float, model: ClockModel, reference_mhz: float | None = None) -> float:
    """Bring a time in microseconds from its mean SM clock to another one, by default that of the model."""
    return time_us * model.time_us(reference_mhz or model.reference_mhz) / model.time_us(mhz)


def normalise_blocks(
    blocks_us: Sequence[float],
    blocks_mhz: Sequence[float],
    model: ClockModel,
    reference_mhz: float | None = None,
) -> list[float]:
    """Bring each block of a timing to the reference clock, in microseconds.

    If the blocks ran at many clocks, the mean time and the mean clock do not belong together: the slowest
    blocks are left out of the time and count in the clock.
    """
    blocks = zip(blocks_us, blocks_mhz, strict=True)
    return [normalise(time_us, mhz, model, reference_mhz) for time_us, mhz in blocks]


def normalisation_error(mhz: float, model: ClockModel, reference_mhz: float | None = None) -> float:
    """Return the error that `normalise` adds to a time: a fraction, relative, 0 at the reference clock.

    First order in `model.share_error`: with the share `s` at the model's own reference `m`, a time goes with
    `1 - s + s·m/f`. A wrong share moves its logarithm at both clocks, and only the difference counts.
    """
    share, clocks = model.sm_clock_share, (reference_mhz or model.reference_mhz, mhz)
    excess = [model.reference_mhz / clock - 1 for clock in clocks]
    one, other = (each / (1 + share * each) for each in excess)
    return abs(one - other) * model.share_error
