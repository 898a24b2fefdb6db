"""What every set of instruments offers to the fixtures."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    import torch

    from pytest_gpuperf.records import Correctness, Profile, StaticKernel, Timing, Trace, WarmUp
    from pytest_gpuperf.records.selection import Selection


@dataclass(frozen=True)
class Call:
    """A callable with its arguments, and the place in a run that its measurements have."""

    nodeid: str
    label: str
    fn: Callable[..., Any]
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self) -> Any:
        """Call it."""
        return self.fn(*self.args, **self.kwargs)

    def __str__(self) -> str:
        """How messages name it."""
        name = getattr(self.fn, "__name__", type(self.fn).__name__)
        return name if self.label == "main" else f"{name} ({self.label})"


@dataclass(frozen=True)
class Reference:
    """What a callable's output is compared with, and how strictly."""

    expected: Any
    """A callable that takes the same arguments, or tensors."""
    rtol: float | None = None
    atol: float | None = None
    equal_nan: bool = False
    mutates: bool | Collection[int | str] = ()
    """Positions or names of the arguments that the callable may write."""


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
