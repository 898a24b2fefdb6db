"""Edited lines of the history."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from history_builders import line
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.features.history.lines import decode_file, encode_line


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
