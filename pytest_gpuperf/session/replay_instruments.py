"""Instruments that answer from recorded runs and launch nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import msgspec
import pytest

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.ncu.raw_kernel import RawKernel
from pytest_gpuperf.measure.static.kernel import kernels_of
from pytest_gpuperf.metrics.combine import combine
from pytest_gpuperf.records import Correctness, Profile, Timing, Trace, WarmUp
from pytest_gpuperf.records.selection import check_regex

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from pytest_gpuperf.records import KernelProfile, Run, StaticKernel, TestRecord
    from pytest_gpuperf.records.call import Call, Reference
    from pytest_gpuperf.records.selection import Selection

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
        """The recorded counters; where more was kept than is asked for now, those of what is asked for."""
        if kernels.regex is not None:
            check_regex(kernels.regex, f"for {call}")
        profile = self._recorded(call, "profile", Profile)
        of_all_tests = profile.unavailable == self._tests[call.nodeid][1].counters_unavailable
        if profile.unavailable and not (of_all_tests or profile.read_at or profile.tolerated):
            raise GpuperfError(profile.unavailable)
        regex = kernels.regex or ""
        if profile.unavailable or (profile.regex, profile.launches) == (regex, kernels.recorded):
            return profile
        if profile.regex not in ("", regex) or profile.launches:
            pytest.skip(
                f"the recording of {call.nodeid} has {_selected(profile.regex, profile.launches)}, "
                f"the test asks for {_selected(regex, kernels.recorded)}"
            )
        matching = [kernel for kernel in profile.kernels if _matches(kernel, regex)]
        if not matching:
            names = ", ".join(dict.fromkeys(kernel.name for kernel in profile.kernels))
            pytest.skip(f"the recording of {call.nodeid} has no kernel for the regex {regex!r}, but {names}")
        picked = tuple(kernels.pick(matching, call))
        return msgspec.structs.replace(
            profile, kernels=picked, combined=combine(picked), regex=regex, launches=kernels.recorded
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


def _selected(regex: str, launches: str) -> str:
    return f"launches={launches or 'all'} of " + (f"kernels={regex!r}" if regex else "all kernels")


def _matches(kernel: KernelProfile, regex: str) -> bool:
    return RawKernel(kernel.name, kernel.demangled).matches(regex)
