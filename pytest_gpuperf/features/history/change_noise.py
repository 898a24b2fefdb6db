"""Noise that a history is expected to have before its own points show it."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable


class Variance(msgspec.Struct, frozen=True, gc=False):
    """Expected variance of the logarithm of a time."""

    value: float
    df: float
    """Degrees of freedom: it weighs as much as one more measured session than that."""


@dataclass(frozen=True)
class ChangeNoise:
    """Smallest change that counts, and standard deviations to expect, in %."""

    indifference_pct: float = 0.25
    """Largest change that counts as none: graphs of one kernel differ by 0.02 to 0.2 % between fresh
    processes on an H200."""
    session_sd_pct: float = 0.25
    """Spread between sessions on one card. Steady kernels spread by 0.01 to 0.25 % there at one clock
    (`tests/data/noise_sessions.json`)."""
    session_sd_us: float = 0.02
    """The same in microseconds, for kernels so short that this is more: one tick of `%globaltimer` is 0.032
    µs, and warm batches of a kernel of 1.2 µs spread by 1 %."""
    session_df: float = 3
    """Degrees of freedom of `session_sd_pct`."""
    card_sd_pct: float = 1.0
    """Spread between cards: two H200s differed by 0.2 % (arithmetic), 0.5 % (a copy) and 2 to 5 % (a matrix
    product at the power limit)."""
    card_df: float = 4
    """Degrees of freedom of `card_sd_pct`: five cards outweigh it."""

    def of(self, mode: str) -> ChangeNoise:
        """Return the noise of times of a mode; by the host's clock, another card is in another host."""
        if mode != "host":
            return self
        return replace(self, session_sd_pct=5.0, card_sd_pct=40.0, card_df=1)

    def of_sessions(self, log_times: Iterable[float]) -> Variance:
        """Return the variance between sessions of a test with these times, at least one."""
        time_us = math.exp(statistics.fmean(log_times))
        sd_pct = max(self.session_sd_pct, 100 * self.session_sd_us / time_us)
        return Variance((sd_pct / 100) ** 2, self.session_df)

    @property
    def of_cards(self) -> Variance:
        """Variance between cards."""
        return Variance((self.card_sd_pct / 100) ** 2, self.card_df)
