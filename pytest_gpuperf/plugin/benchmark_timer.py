"""GPU times for pytest-benchmark: a clock that runs only while the GPU works, as its timer.

pytest-benchmark reads its timer before and after a round of calls and takes the difference. `gpu_clock`
makes that difference the time between two CUDA events on the current stream. `@pytest.mark.gpuperf(
benchmark=True)` puts it in for one test, together with rounds that suit it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.settings.options import is_enabled

if TYPE_CHECKING:
    from collections.abc import Mapping

    import torch

BLOCK_US = 1000.0
"""How long the GPU is blocked after each reading, in microseconds."""

ROUNDS: Mapping[str, object] = {
    "min_time": 1e-4,
    "max_time": 0.1,
    "warmup": True,
    "warmup_iterations": 1000,
}
"""Options of the `benchmark` marker for this clock.

Rounds of 0.1 ms, as the events' own time is a few microseconds; 0.1 s of them, as each takes two blocks of
waiting besides; and a warm-up, as the first call compiles.
"""


def gpu_clock() -> float:
    """Seconds of GPU time between readings, as a timer for pytest-benchmark.

    A reading waits for the GPU, then queues a kernel that blocks it for `BLOCK_US` and behind that the event
    from which the clock goes on. What the host launches meanwhile is queued and runs without a gap, so that
    short kernels are not timed at the rate at which the host launches them. Time between the reading and
    that event is not counted.

    The difference of two readings is too long by what an event pair adds around queued launches (about 3 us
    on an H200, whatever is between them), so a round has to be long against that: `ROUNDS`. Where the host
    needs more than `BLOCK_US` to launch a round, or waits for the GPU in the middle, the rest is timed as it
    comes, pauses of the GPU included. Work on other streams than the current one is not seen.

    Raises:
        GpuperfError: torch sees no CUDA GPU.
    """
    return _CLOCK.read()


class _Clock:
    def __init__(self) -> None:
        self._seconds = 0.0
        self._start: torch.cuda.Event | None = None

    def read(self) -> float:
        import torch

        from pytest_gpuperf.measure.timing.graph import block_gpu, elapsed_us, event

        if self._start is None and not torch.cuda.is_available():
            raise GpuperfError(
                "gpu_clock times with CUDA events, and torch sees no CUDA GPU",
                next_step="mark the test with @pytest.mark.gpuperf(benchmark=True), which skips it here",
            )
        end = event()
        end.record()
        torch.cuda.synchronize()
        if self._start is not None and self._start.device == end.device:
            # From one reading to the next: an event's time is a float of 32 bits, too coarse for long ones.
            self._seconds += elapsed_us(self._start, end) / 1e6
        block_gpu(BLOCK_US)
        self._start = event()
        self._start.record()
        return self._seconds


_CLOCK = _Clock()


def apply(item: pytest.Item) -> None:
    """Have pytest-benchmark time a test by the GPU where it is marked `gpuperf(benchmark=True)`.

    To be called before the test's fixtures are set up. The test's own `benchmark` marker keeps its options,
    except for the timer. Without `--gpuperf`, and in a replay, the test is skipped: times of the host under
    the same name would be compared with those of the GPU.
    """
    if "benchmark" not in getattr(item, "fixturenames", ()) or not _is_marked(item):
        return
    if not is_enabled(item.config):
        pytest.skip("is timed by the GPU; run pytest with --gpuperf")
    from pytest_gpuperf.plugin.hooks import SESSION
    from pytest_gpuperf.session.live import why_not_live

    reason = why_not_live()
    session = item.config.stash.get(SESSION, None)
    if session is not None and session.replayed_from is not None:
        reason = "a replay launches nothing"
    if reason:
        pytest.skip(f"is timed by the GPU, and {reason}")
    own = item.get_closest_marker("benchmark")
    options = {**ROUNDS, **(own.kwargs if own else {}), "timer": gpu_clock}
    # pytest-benchmark reads the first marker only.
    item.add_marker(pytest.mark.benchmark(**options), append=False)


def _is_marked(item: pytest.Item) -> bool:
    asked = (mark.kwargs["benchmark"] for mark in item.iter_markers("gpuperf") if "benchmark" in mark.kwargs)
    return bool(next(asked, False))
