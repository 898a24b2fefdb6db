"""Instruments that answer from recorded runs and launch nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import msgspec
import pytest

from pytest_gpuperf.counters.combine import combine
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.records import Correctness, Profile, Timing, Trace, WarmUp
from pytest_gpuperf.static.kernel import kernels_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from pytest_gpuperf.counters.selection import Selection
    from pytest_gpuperf.instruments.base import Call, Reference
    from pytest_gpuperf.records import Run, StaticKernel, TestRecord

Part = TypeVar("Part")


class ReplayInstruments:
    """Finds each call in recorded runs by its test and label.

    Args:
        runs: Recorded runs of one GPU model, one at least; where two hold a test, the first counts.
        compiles: Whether kernels are compiled here, for which there need be no GPU; otherwise the recorded
            ones count.
    """

    def __init__(self, runs: Sequence[Run], *, compiles: bool) -> None:
        self._compiles = compiles
        self._newest = runs[0]
        self._tests: dict[str, tuple[TestRecord, Run]] = {}
        for run in runs:
            for test in run.tests:
                self._tests.setdefault(test.nodeid, (test, run))

    @property
    def device(self) -> torch.device:
        """`meta`: tensors have shapes and no data."""
        import torch

        return torch.device("meta")

    def check(self, call: Call, reference: Reference) -> Correctness:  # noqa: ARG002
        """The recorded comparison."""
        return self._recorded(call, "correctness", Correctness)

    def warm_up(self, call: Call) -> WarmUp:
        """The recorded warm-up."""
        return self._recorded(call, "warm_up", WarmUp)

    def time(self, call: Call, *, mode: str, bytes: int, flops: int) -> Timing:
        """The recorded time, with the rates of the present test."""
        timing = self._recorded(call, "timing", Timing)
        if mode not in ("auto", timing.mode):
            pytest.skip(
                f"the recording of {call.nodeid} has mode {timing.mode!r}, the test asks for {mode!r}"
            )
        return msgspec.structs.replace(timing, bytes=bytes, flops=flops)

    def profile(self, call: Call, *, kernels: Selection, metrics: tuple[str, ...]) -> Profile:  # noqa: ARG002
        """The recorded counters; where all launches were kept, those of the ones that are asked for now."""
        profile = self._recorded(call, "profile", Profile)
        run_has_none = profile.unavailable == self._tests[call.nodeid][1].counters_unavailable
        if profile.unavailable and not (run_has_none or profile.tolerated):
            raise GpuperfError(profile.unavailable)
        if profile.unavailable or profile.launches == kernels.recorded:
            return profile
        if profile.launches:
            pytest.skip(
                f"the recording of {call.nodeid} has launches={profile.launches}, the test asks for "
                f"{kernels.launches}"
            )
        picked = tuple(kernels.pick(profile.kernels, call))
        return msgspec.structs.replace(
            profile, kernels=picked, combined=combine(picked), launches=kernels.recorded
        )

    def trace(self, call: Call) -> Trace:
        """The recorded kernel table."""
        return self._recorded(call, "trace", Trace)

    def static(self, call: Call) -> dict[str, StaticKernel]:
        """Compile, or look up what was compiled."""
        if self._compiles:
            kernels: dict[str, StaticKernel] = call()
            return kernels
        test, _ = self._tests.get(call.nodeid, (None, None))
        recorded = kernels_of(test.measurements if test else {}, call.label)
        if not recorded:
            pytest.skip(f"no recorded kernels of {call.nodeid} ({call.label})")
        return recorded

    def _recorded(self, call: Call, part: str, kind: type[Part]) -> Part:
        test, run = self._tests.get(call.nodeid, (None, self._newest))
        measured = test.measurements.get(call.label) if test else None
        found = getattr(measured, part, None)
        if found is None and test is not None and test.failure:
            raise GpuperfError(
                f"the recorded test was ended by {test.failure} before its {part.replace('_', '-')}"
            )
        if not isinstance(found, kind):
            gpu = run.environment.gpu.name
            pytest.skip(
                f"no recorded {part.replace('_', '-')} of {call.nodeid} ({call.label}): not measured on "
                f"{gpu} (run {run.id}), so skipped there, or newer than the recording, to which "
                "`gpuperf recording add` adds it after a run on a GPU"
            )
        return found
