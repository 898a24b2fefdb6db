"""Edited lines of the history."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from history_builders import line
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.features.history.lines import decode_file, encode_line
from run_builders import NODEID
from whole_run import MODEL

SESSION = {
    "run": "a",
    "time_us": 5.3,
    "spread_pct": 0.1,
    "sm_clock_mhz": 1500.0,
    "normalised_us": 5.3,
    "clock_model": msgspec.to_builtins(MODEL),
}


def baseline() -> dict[str, Any]:
    values = {
        "time": {"mode": "hot", "reference_mhz": 1500.0, "sessions": [SESSION, {**SESSION, "run": "b"}]},
        "counters": {"registers_per_thread": 32, "instructions": 100},
        "counters_range": {"instructions": [99, 101]},
        "trace": {"launches": 3, "copies": 0, "synchronizations": 0},
    }
    return {
        "schema": 1,
        "gpu": {"name": "NVIDIA H200", "slug": "nvidia-h200"},
        "runs": {"a": {"date": "2026-11-20T17:30:12Z"}},
        "tests": {NODEID: {"measurements": {"main": values}}},
    }


@pytest.mark.parametrize(
    "changes",
    [
        {"time_us": -1.0},
        {"standard_error": 2.0},
        {"normalised_us": 5.0},
        {"sm_clock_mhz": 1e9},
        {"date": "yesterday"},
    ],
)
def test_edited_history_is_refused_with_its_line(changes: dict[str, Any]) -> None:
    broken = encode_line(msgspec.structs.replace(line(1), **changes)) + b"\n"
    with pytest.raises(GpuperfError, match=r"x\.jsonl, line 1 has "):
        decode_file(broken, "x.jsonl", line(1).place)
