"""A stand-in for the screen, as a pytest plugin (`-p stub_screen`): 0.7 % next to the newest session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

import pytest_gpuperf.session.base
from pytest_gpuperf.judge.result import Status, Suspect
from pytest_gpuperf.judge.verdict import judge

if TYPE_CHECKING:
    from pytest_gpuperf.judge.result import TestVerdict
    from pytest_gpuperf.records import TestRecord

ENDS = (Status.INVALID, Status.WRONG, Status.LIMIT)


def screened(record: TestRecord, **given: Any) -> TestVerdict:
    """Judge, and name the times that differ."""
    verdict = judge(record, **given)
    baseline = given["measured"].baseline
    known = baseline.measurements if baseline is not None and verdict.status not in ENDS else {}
    changes = {
        label: 100 * (one.timing.time_us / known[label].time.sessions[-1].time_us - 1)
        for label, one in record.measurements.items()
        if one.timing is not None and one.settlement is None and label in known
    }
    suspects = [Suspect(label, change) for label, change in changes.items() if abs(change) > 0.7]
    return replace(verdict, suspects=tuple(suspects))


vars(pytest_gpuperf.session.base)["judge"] = screened
