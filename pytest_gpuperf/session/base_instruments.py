"""What every set of instruments offers to the fixtures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import torch

    from pytest_gpuperf.records import Correctness, Profile, StaticKernel, Timing, Trace, WarmUp
    from pytest_gpuperf.records.call import Call, Reference
    from pytest_gpuperf.records.selection import Selection


class Instruments(Protocol):
    """Measures calls and returns records."""

    @property
    def device(self) -> torch.device:
        """Where the test puts its tensors."""

    def check(self, call: Call, reference: Reference) -> Correctness:
        """Compare the call's output with its reference."""

    def warm_up(self, call: Call) -> WarmUp:
        """Run the call until its time is steady."""

    def time(self, call: Call, *, mode: str, bytes: int, flops: int) -> Timing:
        """Time the call."""

    def profile(self, call: Call, *, kernels: Selection, metrics: tuple[str, ...]) -> Profile:
        """Read the counters of those launches of the call that are asked for.

        Raises:
            GpuperfError: No launch matched, or a metric is unknown.
        """

    def trace(self, call: Call) -> Trace:
        """Record what one call runs on the GPU.

        Raises:
            GpuperfError: It runs nothing there, or nothing can be recorded.
        """

    def static(self, call: Call) -> dict[str, StaticKernel]:
        """What the call, which compiles and launches nothing, makes for each architecture.

        Raises:
            GpuperfError: The kernel does not compile, or cannot be launched on one of them.
        """
