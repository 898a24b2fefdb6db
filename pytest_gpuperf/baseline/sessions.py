"""Sessions of a time: their JSON objects, and merging new ones into a baseline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_gpuperf.baseline.rounding import TIME_DIGITS, round_to_digits
from pytest_gpuperf.records.baseline import Session
from pytest_gpuperf.records.plausible import alike
from pytest_gpuperf.statistics.clock_model import normalise, normalise_blocks
from pytest_gpuperf.statistics.estimate import trimmed_mean

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_gpuperf.records import ClockModel, Run, Timing

MAX_SESSIONS = 20
"""Maximum number of sessions. The oldest stays: small losses add up against its code."""


def merged_time(
    known: Mapping[str, Any],
    times: Sequence[tuple[Run, Timing]],
    *,
    replace: bool,
    dates: Mapping[str, str],
    cards: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return the JSON object of a time with new sessions in it.

    Args:
        known: The time in the file; empty without one. Keys that a person added stay.
        times: The new sessions, at least one, all of the mode and source of those that stay.
        replace: True if the stored sessions go. A run that is stored is never doubled.
        dates: The start of each run, by run id.
        cards: UUID of the card by run id, if it is another one than the run's.
    """
    first = times[0][1]
    reference = known.get("reference_mhz") or _reference_mhz(times)
    stored = {session["run"]: session for session in known.get("sessions", ())}
    sessions = {} if replace else dict(stored)
    for run, timing in times:
        by_hand = {
            key: value
            for key, value in stored.get(run.id, {}).items()
            if key not in Session.__struct_fields__
        }
        sessions[run.id] = by_hand | _session(run.id, timing, reference)
        if cards and run.id in cards:
            sessions[run.id]["gpu_uuid"] = cards[run.id]
    in_order = sorted(sessions.values(), key=lambda session: (dates.get(session["run"], ""), session["run"]))
    merged = {
        **known,
        "mode": first.mode,
        "source": first.source,
        "sessions": [*in_order[:1], *in_order[1:][1 - MAX_SESSIONS :]],
    }
    if reference:
        merged["reference_mhz"] = reference
    return merged


def told(
    before: Mapping[str, Any], after: Mapping[str, Any], taken: Sequence[str], *, replaced: bool, why: str
) -> str:
    """Describe the change of the sessions: `session 3 of 3 added`; empty if they are of the same runs.

    Args:
        before: The time in the file; empty without one.
        after: The merged time.
        taken: The ids of the accepted runs.
        replaced: True if the stored sessions went.
        why: The evidence that their code has changed.
    """
    old = [session["run"] for session in before.get("sessions", ())]
    new = [session["run"] for session in after["sessions"]]
    added = [run for run in new if run not in old]
    gone = [run for run in old if run not in new]
    parts = []
    if replaced and gone:
        parts.append(f"{count_sessions(len(old))} replaced by {len(new)} ({why})")
    elif old and added:
        one = f"session {new.index(added[0]) + 1} of {len(new)} added"
        parts.append(one if len(added) == 1 else f"{count_sessions(len(added))} added to {len(old)}")
        if gone:
            parts.append("the second dropped" if len(gone) == 1 else f"{len(gone)} after the first dropped")
    left_out = [run for run in taken if run not in new]
    if left_out:
        parts.append(f"{count_sessions(len(left_out))} older than the {MAX_SESSIONS} that are kept")
    return ", ".join(parts)


def count_sessions(number: int) -> str:
    """Return `1 session`, `2 sessions`."""
    return f"{number} session{'' if number == 1 else 's'}"


def _session(run_id: str, timing: Timing, reference_mhz: float) -> dict[str, Any]:
    session: dict[str, Any] = {
        "run": run_id,
        "time_us": round_to_digits(timing.time_us, TIME_DIGITS),
        "spread_pct": round_to_digits(timing.spread_pct, 2),
    }
    clock = timing.sm_clock_mhz
    if clock:
        session["sm_clock_mhz"] = round_to_digits(clock, TIME_DIGITS)
    if timing.host_us:
        session["host_us"] = round_to_digits(timing.host_us, 3)
    if timing.autotuned:
        session["autotuned"] = list(timing.autotuned)
    model = timing.clock_model
    if model is None or timing.clock_model_stored:
        # A stored model is that of another session, and would count twice.
        return session
    session["clock_model"] = _as_json(model)
    if clock:
        normalised = trimmed_mean(normalise_blocks(timing.blocks_us, timing.blocks_mhz, model, reference_mhz))
        # A clock that swings makes a mean time and a mean clock that do not belong together.
        if alike(normalised, normalise(timing.time_us, clock, model, reference_mhz)):
            session["normalised_us"] = round_to_digits(normalised, TIME_DIGITS)
    return session


def _reference_mhz(times: Sequence[tuple[Run, Timing]]) -> float:
    models = (timing.clock_model for _, timing in times)
    return next((round_to_digits(model.reference_mhz, TIME_DIGITS) for model in models if model), 0.0)


def _as_json(model: ClockModel) -> dict[str, float]:
    rounded = {
        "cycles": round_to_digits(model.cycles, TIME_DIGITS),
        "fixed_us": round_to_digits(model.fixed_us, TIME_DIGITS),
        "reference_mhz": round_to_digits(model.reference_mhz, TIME_DIGITS),
    }
    return rounded | ({"share_error": round_to_digits(model.share_error, 2)} if model.share_error else {})
