"""Times of one test from several processes, brought to one SM clock by one model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gpuperf.statistics.clock_model import (
    alike_shares,
    normalisation_error,
    normalise,
    normalise_blocks,
    pool_models,
)

if TYPE_CHECKING:
    from pytest_gpuperf.records import ClockModel, Timing
    from pytest_gpuperf.records.baseline import Session, Times


class OneClock:
    """The clock and the model for all times of a test.

    Args:
        model: The model.
        at_mhz: The SM clock that times are brought to.
    """

    def __init__(self, model: ClockModel, at_mhz: float) -> None:
        self._model = model
        self.at_mhz = at_mhz
        # One model is asked for twice.
        self._compared: ClockModel | None = None
        self._alike = True

    @classmethod
    def of(cls, times: Times, timing: Timing | None = None) -> OneClock | None:
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
            return normalise(session.time_us, mhz, self._model, self.at_mhz) if mhz else 0.0
        if not mhz:
            return session.normalised_us
        # Its blocks were brought to the one clock one by one, by its own model.
        as_measured = normalise(session.normalised_us, self.at_mhz, own, mhz)
        return normalise(as_measured, mhz, self._model, self.at_mhz)

    def blocks_us(self, timing: Timing) -> tuple[float, ...]:
        """Return the blocks of a new time at the one clock; its clocks have to be known."""
        model = self._of(timing)
        return tuple(normalise_blocks(timing.blocks_us, timing.blocks_mhz, model, self.at_mhz))

    def error(self, mhz: float, timing: Timing | None = None) -> float:
        """Return the relative error of a time from an SM clock, in MHz; 0 if the clock is not known."""
        model = self._model if timing is None else self._of(timing)
        return normalisation_error(mhz, model, self.at_mhz) if mhz else 0.0

    def _of(self, timing: Timing) -> ClockModel:
        """Return the model for a new time: its own if its code depends on the clock in another way."""
        own, shared = timing.clock_model, self._model
        if own is None:
            return shared
        if own is not self._compared:
            self._compared, self._alike = own, alike_shares(own, shared)
        return shared if self._alike else own
