"""Times of one test from several processes, brought to one SM clock by one model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from pytest_gpuperf.statistics.clock_model import (
    ClockModel,
    alike_shares,
    normalisation_error,
    normalise,
    normalise_blocks,
    pool_models,
)

if TYPE_CHECKING:
    from pytest_gpuperf.records import Timing
    from pytest_gpuperf.records.baseline import Session, TimeBaseline


class OneClock(msgspec.Struct, frozen=True, gc=False):
    """The clock and the model for all times of a test."""

    model: ClockModel
    at_mhz: float
    """The SM clock that times are brought to."""

    @classmethod
    def of(cls, times: TimeBaseline, timing: Timing | None = None) -> OneClock | None:
        """Pool the models of stored sessions; None if no model is known.

        Args:
            times: The sessions.
            timing: A new time, whose model serves if the sessions have none.
        """
        models = [session.clock_model for session in times.sessions if session.clock_model is not None]
        if not models and timing is not None and timing.clock_model is not None:
            models = [timing.clock_model]
        if not models:
            return None
        at_mhz = times.reference_mhz or models[0].reference_mhz
        return cls(pool_models(models, at_mhz), at_mhz)

    def stored_us(self, session: Session) -> float:
        """Return a session's time at the one clock, in µs; 0 if its clock was not known or swung."""
        own, mhz = session.clock_model, session.sm_clock_mhz
        if own is None:
            return normalise(session.time_us, mhz, self.model, self.at_mhz) if mhz else 0.0
        if not mhz:
            return session.normalised_us
        # Its blocks were brought to the one clock one by one, by its own model.
        as_measured = normalise(session.normalised_us, self.at_mhz, own, mhz)
        return normalise(as_measured, mhz, self.model, self.at_mhz)

    def for_time(self, timing: Timing) -> OneClock:
        """Return the clock for a new time: with its own model if its code depends on the clock otherwise."""
        own = timing.clock_model
        return self if own is None or alike_shares(own, self.model) else OneClock(own, self.at_mhz)

    def blocks_us(self, timing: Timing) -> tuple[float, ...]:
        """Return the blocks of a time at the one clock; its clocks have to be known."""
        return tuple(normalise_blocks(timing.blocks_us, timing.blocks_mhz, self.model, self.at_mhz))

    def error(self, mhz: float) -> float:
        """Return the relative error of a time from an SM clock, in MHz; 0 if the clock is not known."""
        return normalisation_error(mhz, self.model, self.at_mhz) if mhz else 0.0
