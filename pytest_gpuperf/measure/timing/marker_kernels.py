"""Marks: empty kernels that separate the launches of calls in CUPTI's records."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.cupti.libcupti import CuptiError
from pytest_gpuperf.measure.device import driver, originals

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_gpuperf.measure.cupti.activity import Activity

REFUSED = "the time is refused: "
SPIN = "spin_kernel"
"""torch's kernel that blocks the GPU."""
THREADS_S = 0.004
"""Seconds in which other threads of Python may launch work after the last call."""


def mark() -> None:
    """Queue an empty kernel on the current stream.

    Raises:
        GpuperfError: The driver refuses it.
    """
    driver.launch(driver.EMPTY, 0, originals.current_stream().cuda_stream)


def counted(calls: Sequence[Sequence[Activity]]) -> list[list[Activity]]:
    """Return the activities of calls that count in a time: all, or without copies from and to the host.

    These count only if the calls do nothing else on the GPU. The same small copies of a call took 4.4 µs in
    one session and 6.9 µs in another, on other hosts (H200).
    """
    device = [[one for one in call if not one.with_host] for call in calls]
    return device if any(device) else [list(call) for call in calls]


def marks_in(activities: Iterable[Activity], launched: int) -> list[Activity]:
    """Return the marks among activities.

    Args:
        activities: The activities.
        launched: Number of marks.

    Raises:
        CuptiError: Marks are missing.
        GpuperfError: There are more: the callable could pass its work off as marks.
    """
    found = [one for one in activities if driver.EMPTY in one.name]
    if (more := len(found) - launched) > 0:
        raise GpuperfError(
            f"{REFUSED}{more} kernels of the callable have the name {driver.EMPTY}, by which this "
            "plugin knows its own kernels",
            expected="kernels of other names",
        )
    if more:
        raise CuptiError(
            f"CUPTI recorded {len(found)} of {launched} marks",
            next_step="leave other profilers out of the process",
        )
    return found


def refuse_elsewhere(*, silent: int, late: int, calls: int) -> None:
    """Refuse calls that launch their work at another time.

    Args:
        silent: Number of calls that launched nothing.
        late: Number of launches after calls had returned.
        calls: Number of calls.

    Raises:
        GpuperfError: Some did.
    """
    if late:
        raise GpuperfError(
            f"{REFUSED}{late} launches came after {calls} calls had returned",
            expected="calls that launch all of their work before they return, also from other threads",
        )
    if silent:
        raise GpuperfError(
            f"{REFUSED}{silent} of {calls} calls launched nothing on the GPU",
            expected="calls that all do the same work",
        )


def wait_for_threads() -> None:
    """Give other threads of Python the time to launch, if there are any."""
    if len(sys._current_frames()) > 1:
        time.sleep(THREADS_S)
