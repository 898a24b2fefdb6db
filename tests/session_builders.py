"""Runs of several days, and their sessions in a baseline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_gpuperf.baseline.merge import accept
from run_builders import NODEID, measured, record, run

if TYPE_CHECKING:
    from pytest_gpuperf.baseline.entry import Which
    from pytest_gpuperf.baseline.merge import UpdatePlan
    from pytest_gpuperf.baseline.store import BaselineStore
    from pytest_gpuperf.records import Measurement, Run


NO_CI: dict[str, str] = {}


def on_day(day: int, *measurements: Measurement) -> Run:
    """Return the run of one day, with one test."""
    main = measurements[0] if measurements else measured(5.3)
    return run(record(main=main), id=f"202611{day:02}-000000-0000", started_at=f"2026-11-{day:02}T00:00:00Z")


def accepted(store: BaselineStore, *runs: Run, which: Which = "all") -> UpdatePlan:
    return accept(runs, store, which, 5.0, environ=NO_CI)


def content(store: BaselineStore) -> dict[str, Any]:
    found = store.load_for_update("nvidia-h200", "test_square")
    return found[1] if found else {}


def time_of(store: BaselineStore) -> dict[str, Any]:
    time: dict[str, Any] = content(store)["tests"][NODEID]["measurements"]["main"]["time"]
    return time


def days(store: BaselineStore) -> list[int]:
    return [int(session["run"][6:8]) for session in time_of(store)["sessions"]]
