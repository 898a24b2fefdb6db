"""Runs of several days, and their sessions in a baseline."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pytest_gpuperf.baseline.acceptance import accept
from pytest_gpuperf.records.run_store import load_run
from run_builders import NODEID, measured, record, run

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_gpuperf.baseline.acceptance import UpdatePlan
    from pytest_gpuperf.baseline.accepted_measurement import Which
    from pytest_gpuperf.baseline.store import BaselineStore
    from pytest_gpuperf.records import Measurement, Run


def run_of(folder: Path) -> Run:
    """Return the only run of a project."""
    (path,) = folder.glob(".gpuperf/runs/*/run.json")
    return load_run(path)


def on_day(day: int, *measurements: Measurement) -> Run:
    """Return the run of one day, with one test."""
    main = measurements[0] if measurements else measured(5.3)
    return run(record(main=main), id=f"202611{day:02}-000000-0000", started_at=f"2026-11-{day:02}T00:00:00Z")


def accepted(store: BaselineStore, *runs: Run, which: Which = "all") -> UpdatePlan:
    return accept(runs, store, which, 5.0)


def content(store: BaselineStore) -> dict[str, Any]:
    path = store.path("nvidia-h200", "test_square")
    found: dict[str, Any] = json.loads(path.read_bytes()) if path.exists() else {}
    return found


def time_of(store: BaselineStore) -> dict[str, Any]:
    time: dict[str, Any] = content(store)["tests"][NODEID]["measurements"]["main"]["time"]
    return time


def days(store: BaselineStore) -> list[int]:
    return [int(session["run"][6:8]) for session in time_of(store)["sessions"]]
