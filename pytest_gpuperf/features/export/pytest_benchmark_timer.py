"""GPU times for pytest-benchmark: a timer that runs only while the GPU works.

pytest-benchmark reads its timer before and after a round of calls and takes the difference. With `gpu_clock`
this difference is the time between two CUDA events on the current stream. `@pytest.mark.gpuperf(
benchmark=True)` sets this timer for one test, with rounds that suit it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.settings.options import is_enabled

if TYPE_CHECKING:
    from collections.abc import Mapping

BLOCK_US = 1000.0
"""Time that the GPU is blocked after each reading, in microseconds."""

ROUNDS: Mapping[str, object] = {
    "min_time": 1e-4,
    "max_time": 0.1,
    "warmup": True,
    "warmup_iterations": 1000,
}
"""Options of the `benchmark` marker for this timer.

Rounds take 0.1 ms, as the events themselves take a few microseconds. All rounds take 0.1 s, as each also
waits for two blocks. The warm-up is for the first call, which compiles.
"""


def gpu_clock() -> float:
    """Read a timer for pytest-benchmark: seconds of GPU time.

    A reading waits for the GPU. Then it queues a kernel that blocks the GPU for `BLOCK_US`, and after that
    the event from which the timer continues. Launches during the block are queued and run without a gap, so
    short kernels are not timed at the host's launch rate. The time between the reading and that event does
    not count.

    The difference of two readings is too long by the cost of an event pair around queued launches (about 3 us
    on an H200, whatever is between them). So a round has to be much longer: `ROUNDS`. If the host needs more
    than `BLOCK_US` to launch a round, or waits for the GPU during a round, pauses of the GPU count too. Work
    on other streams is not timed.

    Raises:
        GpuperfError: torch sees no CUDA GPU.
    """
    return _CLOCK.read()


class _Clock:
    def __init__(self) -> None:
        self._seconds = 0.0
        self._start: Any = None

    def read(self) -> float:
        import torch

        from pytest_gpuperf.measure.device import originals
        from pytest_gpuperf.measure.timing.graph import hold_gpu

        if self._start is None and not torch.cuda.is_available():
            raise GpuperfError(
                "gpu_clock times with CUDA events, and torch sees no CUDA GPU",
                next_step="mark the test with @pytest.mark.gpuperf(benchmark=True), which skips it here",
            )
        end: Any = originals.event()
        originals.record(end)
        originals.synchronize()
        if self._start is not None and self._start.device == end.device:
            # Only since the last reading: an event's time is a float of 32 bits, too coarse for long times.
            self._seconds += originals.elapsed_us(self._start, end) / 1e6
        hold_gpu(BLOCK_US)
        self._start = originals.event()
        originals.record(self._start)
        return self._seconds


_CLOCK = _Clock()


def apply(item: pytest.Item) -> None:
    """Set the GPU timer of pytest-benchmark for a test marked `gpuperf(benchmark=True)`.

    Call it before the test's fixtures are set up. The test's own `benchmark` marker keeps its options, except
    the timer. Without `--gpuperf`, and in a replay, the test is skipped: otherwise times of the host and
    of the GPU would be compared under one name.
    """
    if not is_timed_by_gpu(item):
        return
    if not is_enabled(item.config):
        pytest.skip("is timed by the GPU; run pytest with --gpuperf")
    from pytest_gpuperf.plugin.late_reports import TIMER
    from pytest_gpuperf.session.live_runner import why_not_live
    from pytest_gpuperf.session.runner import RUNNER

    reason = why_not_live()
    runner = item.config.stash.get(RUNNER, None)
    if runner is not None and runner.report is not None and runner.report.facts.replayed_from is not None:
        reason = "a replay launches nothing"
    if reason:
        pytest.skip(f"is timed by the GPU, and {reason}")
    own = item.get_closest_marker("benchmark")
    options = {**ROUNDS, **(own.kwargs if own else {}), "timer": gpu_clock}
    # pytest-benchmark reads the first marker only.
    item.add_marker(pytest.mark.benchmark(**options), append=False)
    item.user_properties.append((TIMER, gpu_clock.__name__))


def is_timed_by_gpu(item: pytest.Item) -> bool:
    """Return True for a test of pytest-benchmark that is marked `gpuperf(benchmark=True)`."""
    if "benchmark" not in getattr(item, "fixturenames", ()):
        return False
    asked = (mark.kwargs["benchmark"] for mark in item.iter_markers("gpuperf") if "benchmark" in mark.kwargs)
    return next(asked, False) is True
