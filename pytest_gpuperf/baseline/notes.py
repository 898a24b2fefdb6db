"""Notes of runs in a baseline file: the origin of its values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pytest_gpuperf.records import Run


def keep_used_notes(content: dict[str, Any], runs: Sequence[Run] = ()) -> None:
    """Keep only the notes of runs that a value or a session comes from.

    Args:
        content: The JSON object of a baseline file; changed.
        runs: Runs whose values may be new.
    """
    used = set(_used(content))
    notes = {**content.get("runs", {}), **{run.id: _note(run) for run in runs}}
    content["runs"] = {run_id: note for run_id, note in notes.items() if run_id in used}


def _used(content: Mapping[str, Any]) -> Iterator[str]:
    for test in content.get("tests", {}).values():
        for measurement in test.get("measurements", {}).values():
            yield measurement.get("counters_run", "")
            time = measurement.get("time") or {}
            yield from (session["run"] for session in time.get("sessions", ()))


def _note(run: Run) -> dict[str, Any]:
    environment = run.environment
    note = {
        "commit": environment.commit,
        "date": run.started_at,
        "gpu_uuid": environment.gpu.uuid,
        "toolchain": msgspec.to_builtins(environment.toolchain),
    }
    if environment.dirty is not None:
        note["dirty"] = environment.dirty
    return note
