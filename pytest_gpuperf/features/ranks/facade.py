"""The object behind the `gpuperf_ranks` fixture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from pytest_gpuperf.errors import GpuperfError, show_repr
from pytest_gpuperf.features.ranks.source import RankCall, source_of
from pytest_gpuperf.plugin.recorder import (
    Recorder,
    check_callable,
    check_count,
    fails_test,
    reference_of,
)
from pytest_gpuperf.records.ranks import BUS_FACTORS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from pytest_gpuperf.features.ranks.live_ranks import LiveRanks
    from pytest_gpuperf.features.ranks.source import RecordedRanks
    from pytest_gpuperf.records import Correctness, Measurement, Timing
    from pytest_gpuperf.records.ranks import Collective

    Factory = Callable[[int, int, int], Any]


class GpuperfRanks(Recorder):
    """Checks and times callables that run on several GPUs at once, one process (a rank) for each.

    The ranks start with the first test, live as long as the session, and have `torch.distributed`
    initialised with NCCL. Each imports the callables by module and name: top-level functions, or
    `functools.partial` of some.
    """

    @property
    @fails_test
    def world(self) -> int:
        """Number of ranks: `gpus=` of the marker."""
        __tracebackhide__ = True
        if not self._state.marker.gpus:
            raise GpuperfError(
                "gpuperf_ranks in a test without a number of GPUs",
                next_step="mark it: @pytest.mark.gpuperf(gpus=2)",
            )
        return self._state.marker.gpus

    @fails_test
    def __call__(
        self,
        fn: Callable[..., Any],
        /,
        *,
        inputs: Factory,
        expected: Factory,
        collective: Collective = "",
        bytes: int = 0,
        flops: int = 0,
        rtol: float | None = None,
        atol: float | None = None,
        equal_nan: bool = False,
        mutates: bool | Collection[int | str] = (),
        label: str = "main",
    ) -> Measurement:
        """Check and time in one line.

        Takes the arguments of `check` and `time`.

        Returns:
            Both records.
        """
        __tracebackhide__ = True
        self.check(
            fn,
            inputs=inputs,
            expected=expected,
            rtol=rtol,
            atol=atol,
            equal_nan=equal_nan,
            mutates=mutates,
            label=label,
        )
        self.time(fn, inputs=inputs, collective=collective, bytes=bytes, flops=flops, label=label)
        return self._state.measurements[label]

    @fails_test
    def check(
        self,
        fn: Callable[..., Any],
        /,
        *,
        inputs: Factory,
        expected: Factory,
        rtol: float | None = None,
        atol: float | None = None,
        equal_nan: bool = False,
        mutates: bool | Collection[int | str] = (),
        label: str = "main",
    ) -> Correctness:
        """Fail the test at once if the output of `fn` on any rank is not the expected one.

        Args:
            fn: The callable under test.
            inputs: `inputs(rank, world, seed)` returns the arguments of a rank, as `inputs=` of
                `gpuperf.check` does. It is called on the rank, whose GPU is the default device.
            expected: `expected(rank, world, seed)` returns the expected output of a rank, from the same
                seed.
            rtol: Relative tolerance.
            atol: Absolute tolerance.
            equal_nan: Whether NaN equals NaN.
            mutates: Positions, or names of keyword arguments, that `fn` may write to; True for all.
            label: Name of the measurement.

        Returns:
            The largest differences, of the first rank that is wrong, else of all.
        """
        __tracebackhide__ = True
        ranks, call = self._begin_ranks("correctness", label, fn, inputs)
        reference = reference_of(check_callable("expected", expected), rtol, atol, equal_nan, mutates)
        result = ranks.check_ranks(replace(call, reference=reference))
        self._keep(label, correctness=result)
        if not result.passed:
            pytest.fail(result.failure)
        return result

    @fails_test
    def time(
        self,
        fn: Callable[..., Any],
        /,
        *,
        inputs: Factory,
        collective: Collective = "",
        bytes: int = 0,
        flops: int = 0,
        label: str = "main",
    ) -> Timing:
        """Time `fn` on all ranks, each call after a barrier on the GPUs.

        The time is the mean of the slowest rank of each call.

        Args:
            fn: The callable to time; it is called many times with the same arguments.
            inputs: Makes the arguments, as in `check`, from another seed.
            collective: `all_reduce`, `all_gather`, `reduce_scatter`, `all_to_all` or `broadcast`, for the bus
                bandwidth.
            bytes: Bytes of the larger buffer of a rank, input or output, as nccl-tests counts them.
            flops: Floating-point operations of a call on one rank.
            label: Name of the measurement.

        Returns:
            Time in microseconds per call, with the time of each rank in `ranks`.
        """
        __tracebackhide__ = True
        ranks, call = self._begin_ranks("timing", label, fn, inputs)
        if not isinstance(collective, str) or (collective and collective not in BUS_FACTORS):
            raise GpuperfError(
                f"collective={show_repr(collective)}", expected=f"one of {', '.join(BUS_FACTORS)}, or none"
            )
        result = ranks.time_ranks(
            call, collective=collective, bytes=check_count("bytes", bytes), flops=check_count("flops", flops)
        )
        self._keep(label, timing=result)
        return result

    def _begin_ranks(
        self, part: str, label: str, fn: Callable[..., Any], inputs: Factory
    ) -> tuple[LiveRanks | RecordedRanks, RankCall]:
        _, call = self._begin(part, label, fn)
        make = check_callable("inputs", inputs)
        ranks = source_of(self._runner)
        if ranks is None:
            pytest.skip("runs on several GPUs, and this process measures one")
        seed = self.seed + (part != "correctness")
        return ranks, RankCall(call.nodeid, label, fn, seed=seed, gpus=self.world, make=make)
