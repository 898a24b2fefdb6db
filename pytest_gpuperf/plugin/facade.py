"""The object behind the `gpuperf` fixture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.judge.limits import parse_limits
from pytest_gpuperf.plugin.kernel_facade import KernelFacade
from pytest_gpuperf.records.call import Reference

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    import torch

    from pytest_gpuperf.records import Correctness, Measurement, Profile, Timing, WarmUp
    from pytest_gpuperf.records.selection import Launches

    GpuWarmUp: TypeAlias = Callable[..., WarmUp]
    GpuTimer: TypeAlias = Callable[..., Timing]
    Ncu: TypeAlias = Callable[..., Profile]


class Gpuperf(KernelFacade):
    """Checks, times, profiles and traces callables, and keeps what was measured for the verdict.

    Every method takes a plain callable with its arguments; keyword arguments that the method does
    not know go to the callable. `label` names a measurement where a test measures several callables.
    """

    @property
    def device(self) -> torch.device:
        """Where tensors belong: the GPU, or `meta` when a recording is replayed."""
        return self._instruments.device

    def __call__(
        self,
        fn: Callable[..., Any],
        /,
        *args: Any,
        expected: Any,
        bytes: int = 0,
        flops: int = 0,
        rtol: float | None = None,
        atol: float | None = None,
        equal_nan: bool = False,
        mutates: bool | Collection[int | str] = (),
        mode: str | None = None,
        kernels: str | None = None,
        launches: Launches | None = None,
        label: str = "main",
        **kwargs: Any,
    ) -> Measurement:
        """Check, time and profile in one line.

        Takes the arguments of `check`, `time` and `profile`.

        Returns:
            All three records.
        """
        __tracebackhide__ = True
        self.check(
            fn,
            *args,
            expected=expected,
            rtol=rtol,
            atol=atol,
            equal_nan=equal_nan,
            mutates=mutates,
            label=label,
            **kwargs,
        )
        self.time(fn, *args, bytes=bytes, flops=flops, mode=mode, label=label, **kwargs)
        self.profile(fn, *args, kernels=kernels, launches=launches, label=label, **kwargs)
        return self._state.measurements[label]

    def check(
        self,
        fn: Callable[..., Any],
        /,
        *args: Any,
        expected: Any,
        rtol: float | None = None,
        atol: float | None = None,
        equal_nan: bool = False,
        mutates: bool | Collection[int | str] = (),
        label: str = "main",
        **kwargs: Any,
    ) -> Correctness:
        """Fail the test at once where the output of `fn` is not the expected one.

        Also fails where elements of the output were never written, where the output has NaN, and
        where `fn` changed an input.

        Args:
            fn: What is tested.
            args: Its arguments.
            expected: A reference callable that takes the same arguments, or the expected tensors.
            rtol: Relative tolerance; by default by dtype, as in `torch.testing.assert_close`.
            atol: Absolute tolerance; give both or neither.
            equal_nan: Whether NaN equals NaN; otherwise NaN in the output fails.
            mutates: Positions, or names of keyword arguments, that `fn` may write to; True for all.
            label: Name of the measurement.
            kwargs: Keyword arguments of `fn`.

        Returns:
            The largest differences and where they are.
        """
        __tracebackhide__ = True
        call = self._call("correctness", label, fn, args, kwargs)
        reference = Reference(expected, rtol=rtol, atol=atol, equal_nan=equal_nan, mutates=mutates)
        try:
            result = self._instruments.check(call, reference)
        except GpuperfError as error:
            self._fail(error)
        self._keep(label, correctness=result)
        if not result.passed:
            pytest.fail(result.failure)
        return result

    def warm_up(self, fn: Callable[..., Any], /, *args: Any, label: str = "main", **kwargs: Any) -> WarmUp:
        """Run `fn` until its time on the GPU is steady. `time` does so by itself.

        Returns:
            Seconds and launches it took, and whether the time became steady before the cap.
        """
        __tracebackhide__ = True
        try:
            result = self._instruments.warm_up(self._call("warm_up", label, fn, args, kwargs))
        except GpuperfError as error:
            self._fail(error)
        self._keep(label, warm_up=result)
        return result

    def time(
        self,
        fn: Callable[..., Any],
        /,
        *args: Any,
        bytes: int = 0,
        flops: int = 0,
        mode: str | None = None,
        label: str = "main",
        **kwargs: Any,
    ) -> Timing:
        """Time one call of `fn` on the GPU, after a warm-up, with CUDA events.

        Args:
            fn: What is timed. It is called many times with the same arguments.
            args: Its arguments.
            bytes: Bytes that one call has to move, for GB/s.
            flops: Floating-point operations of one call, for TFLOP/s.
            mode: `auto`, `hot`, `cold`, `queued` or `host`; by default the one of `--gpuperf-mode`.
            label: Name of the measurement.
            kwargs: Keyword arguments of `fn`.

        Returns:
            Time in microseconds a call, with its spread and how it was taken.
        """
        __tracebackhide__ = True
        call = self._call("timing", label, fn, args, kwargs)
        try:
            result = self._instruments.time(
                call,
                mode=mode or self._settings.mode,
                bytes=_count("bytes", bytes),
                flops=_count("flops", flops),
            )
        except GpuperfError as error:
            self._fail(error)
        self._keep(label, timing=result)
        return result

    def limit(self, *limits: str) -> None:
        """Add limits such as `"memory_throughput >= 60"` or `"stall.barrier <= 25"`.

        They are judged at the end of the test, together with the marker's and the baseline file's.
        """
        __tracebackhide__ = True
        try:
            self._state.limits.extend(parse_limits(list(limits)))
        except GpuperfError as error:
            self._fail(error)


def _count(name: str, value: Any) -> int:
    """A number of bytes or operations, which may be numpy's, or a float without a fraction."""
    try:
        count = int(value)
    except (TypeError, ValueError, OverflowError):
        count = -1
    if count < 0 or count != value:
        raise GpuperfError(f"{name}={value!r}", expected=f"how many {name} one call has, a whole number")
    return count
