"""Settlement of a time outside the screen: by old and new code in turn, or by fresh processes of new code."""

from __future__ import annotations

from typing import Literal

from pytest_gpuperf.records.base import Record
from pytest_gpuperf.records.kernel_code import LaunchedCode
from pytest_gpuperf.records.number_ranges import Clock, LogRatio, Seconds, Time, TimeOrZero
from pytest_gpuperf.records.timing import TimingMode


class AgainstTiming(Record, frozen=True, kw_only=True):
    """Time of one call and of the same call in older code, measured in turn on one GPU.

    The older code may also be another callable, and a restart a round of both in one process.
    """

    ref: str
    """Older code: the name that the user typed, or the start of the commit's id; `python:FOLDER` for the
    environment in a folder, `python:FOLDER@REF` for a commit in it; or the label of the other callable."""
    commit: str
    """Commit of the older code; empty for the checkout in another environment, and for a callable."""
    mode: TimingMode | None = None
    """Mode of both sides; None if they were not timed."""
    recorded: bool = False
    """True if CUPTI has timed the blocks, as those of short calls."""
    log_ratios: tuple[LogRatio, ...] = ()
    """Natural logarithm of new over old time in each restart, at one SM clock."""
    raw_log_ratios: tuple[LogRatio, ...] = ()
    """The same for the times as measured."""
    new_first: tuple[bool, ...] = ()
    """For each restart, True if the new code went ahead."""
    old_us: TimeOrZero = 0.0
    """20 % trimmed mean over the blocks of all restarts, each at the mean SM clock of its restart, in
    microseconds a call; 0 if there are none."""
    new_us: TimeOrZero = 0.0
    old_mhz: Clock = 0.0
    """Mean SM clock of the old code's blocks, in MHz; 0 if unknown."""
    new_mhz: Clock = 0.0
    code: LaunchedCode | None = None
    """Code of the older code's kernels; None if it was not read."""
    autotuned: tuple[str, ...] = ()
    """What autotuners chose for them, as in `Timing`."""

    def __post_init__(self) -> None:
        """Refuse another number of values than restarts, which a file may have."""
        if not {len(self.raw_log_ratios), len(self.new_first)} <= {0, len(self.log_ratios)}:
            raise ValueError("raw_log_ratios and new_first have other lengths than log_ratios")


def is_out_of_memory(reason: str) -> bool:
    """Return True if memory of the GPU was short, as torch, CUDA, cuBLAS and cuDNN say it."""
    return any(one in reason.lower() for one in ("out of memory", "alloc_failed"))


class Settlement(Record, frozen=True, kw_only=True):
    """How a suspect was settled: old and new code in turn, or fresh processes."""

    how: Literal["in turn", "fresh", "impossible"]
    against: AgainstTiming | None = None
    """Restarts of both sides if `how` is `in turn`; without any, the old code that could not be timed."""
    fresh_us: tuple[Time, ...] = ()
    """Time of the new code in each of some fresh processes, in microseconds a call: at the reference clock of
    the baseline if its effect is known. Also in turn, unless the source is another than the baseline's."""
    reason: str = ""
    """Why old and new code could not be timed in turn; empty if they were."""
    sessions: tuple[str, ...] = ()
    """Run ids of the baseline's sessions when it was settled; empty if a commit was named."""
    seconds: Seconds = 0.0
    """Wall time, with all that the processes repeat: imports, fixtures, compilers."""
    setup_s: Seconds = 0.0
    """Mean seconds of a process for these: all but its blocks."""

    @property
    def names_code(self) -> bool:
        """True if the user named old code: it is compared instead of the baseline."""
        return not self.sessions

    @property
    def lacks_memory(self) -> bool:
        """True if more can be done when the process of the test has ended."""
        return self.how == "impossible" and is_out_of_memory(self.reason)
