"""The sources of measurements: a GPU, a recording, or nothing in a child."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pytest_gpuperf.records import (
        AgainstTiming,
        Correctness,
        Fuzzing,
        LaunchedCode,
        Profile,
        Timing,
        Trace,
        WarmUp,
    )
    from pytest_gpuperf.records.call import Call, FuzzCall, Selection


class CallSource(Protocol):
    """The source of the measurements: each method answers one method of the `gpuperf` fixture.

    Raises:
        GpuperfError: Its methods, if the test has to be changed.
    """

    def check(self, call: Call) -> Correctness:
        """Compare the call's output with its reference."""

    def fuzz(self, call: FuzzCall) -> Fuzzing:
        """Compare the function with its reference on generated arguments."""

    def warm_up(self, call: Call) -> WarmUp:
        """Run the call until its time is steady."""

    def code(self, call: Call) -> LaunchedCode | None:
        """Hash the code of the kernels that the call launches; None if nobody looks for it."""

    def time(self, call: Call, *, mode: str, bytes: int, flops: int) -> Timing:
        """Time the call."""

    def in_turn(self, first: Call, other: Call, *, mode: str) -> AgainstTiming:
        """Time two calls with the same arguments in turn."""

    def profile(self, call: Call, kernels: Selection) -> Profile:
        """Read the counters of the selected launches of the call."""

    def trace(self, call: Call) -> Trace:
        """Record the kernels that one call runs."""


class Processes(Protocol):
    """Processes of a feature that share the GPU of the run."""

    @property
    def alive(self) -> bool:
        """True if there are any."""

    def end(self) -> None:
        """End them."""
