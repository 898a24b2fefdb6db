"""Sessions of a time: made from a timing, and merged into a baseline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from pytest_gpuperf.baseline.rounding import TIME_DIGITS, round_to_digits
from pytest_gpuperf.records.baseline import Session, TimeBaseline
from pytest_gpuperf.statistics.clock_model import normalise_blocks
from pytest_gpuperf.statistics.decision import trimmed_mean

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_gpuperf.records import ClockModel, Timing
    from pytest_gpuperf.records.baseline import RunNote

HALF = 10
"""Number of the oldest sessions that stay, as small losses add up against them, and of the newest ones."""


def merged_time(
    known: TimeBaseline | None,
    run: str,
    timing: Timing,
    runs: Mapping[str, RunNote],
    card: str = "",
    *,
    replaces: bool = False,
) -> TimeBaseline:
    """Return a baseline of a time with the session of a run in it, which is never there twice.

    The stored sessions go if the new one replaces them, as those of another mode or source have to. The card
    is empty if it is that of the run.
    """
    model = timing.clock_model
    reference = known.reference_mhz if known is not None else 0.0
    if not reference and model is not None:
        reference = round_to_digits(model.reference_mhz, TIME_DIGITS)
    sessions = {one.run: one for one in known.sessions} if known is not None and not replaces else {}
    sessions[run] = replace(_session(run, timing, reference), gpu_uuid=card)
    dates = {id_: note.date for id_, note in runs.items()}
    in_order = sorted(sessions.values(), key=lambda one: (dates.get(one.run, ""), one.run))
    return TimeBaseline(
        mode=timing.mode,
        source=timing.source,
        reference_mhz=reference,
        sessions=(*in_order[:HALF], *in_order[HALF:][-HALF:]),
    )


def _session(run: str, timing: Timing, reference_mhz: float) -> Session:
    clock, model = timing.sm_clock_mhz, timing.clock_model
    session = Session(
        run=run,
        time_us=round_to_digits(timing.time_us, TIME_DIGITS),
        spread_pct=round_to_digits(timing.spread_pct, 2),
        sm_clock_mhz=round_to_digits(clock, TIME_DIGITS),
        autotuned=timing.autotuning.chosen,
        peak_memory_mb=timing.peak_memory_mb,
    )
    if model is None or model.stored:
        # A stored model is that of another session, and would count twice.
        return session
    normalised = 0.0
    if clock:
        blocks = normalise_blocks(timing.blocks_us, timing.blocks_mhz, model, reference_mhz)
        # Cold blocks may be below 0.
        normalised = max(0.0, trimmed_mean(blocks))
    normalised = round_to_digits(normalised, TIME_DIGITS)
    return replace(session, clock_model=_rounded(model), normalised_us=normalised)


def _rounded(model: ClockModel) -> ClockModel:
    digits = {"cycles": TIME_DIGITS, "fixed_us": TIME_DIGITS, "reference_mhz": TIME_DIGITS, "share_error": 2}
    return replace(model, **{name: round_to_digits(getattr(model, name), digits[name]) for name in digits})
