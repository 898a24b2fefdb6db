"""The object behind the `gpuperf` fixture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import msgspec
import pytest

from pytest_gpuperf.counters.selection import Selection, check_launches
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.instruments.base import Call, Reference
from pytest_gpuperf.records import Measurement, Profile
from pytest_gpuperf.runs import STATE_FOLDER
from pytest_gpuperf.static.compile import compile_static
from pytest_gpuperf.static.kernel import ARCHITECTURES, NoCompilerError, label_of, profile_of
from pytest_gpuperf.verdict.limits import parse_limits

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    import torch

    from pytest_gpuperf.counters.selection import Launches
    from pytest_gpuperf.instruments.base import Instruments
    from pytest_gpuperf.item_state import ItemState
    from pytest_gpuperf.options import Settings
    from pytest_gpuperf.records import Correctness, StaticKernel, Timing, WarmUp

    GpuWarmUp: TypeAlias = Callable[..., WarmUp]
    GpuTimer: TypeAlias = Callable[..., Timing]
    Ncu: TypeAlias = Callable[..., Profile]


class Gpuperf:
    """Checks, times and profiles callables, and keeps what was measured for the verdict.

    Every method takes a plain callable with its arguments; keyword arguments that the method does
    not know go to the callable. `label` names a measurement where a test measures several callables.
    """

    def __init__(self, state: ItemState, instruments: Instruments, settings: Settings) -> None:
        self._state = state
        self._instruments = instruments
        self._settings = settings

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

    def profile(
        self,
        fn: Callable[..., Any],
        /,
        *args: Any,
        kernels: str | None = None,
        launches: Launches | None = None,
        label: str = "main",
        **kwargs: Any,
    ) -> Profile:
        """Hardware counters of the kernels that one call of `fn` launches.

        A kernel that cannot be found or a metric that does not exist fails the test at its end, so
        that what is timed after this call is still timed.

        Args:
            fn: What is profiled.
            args: Its arguments.
            kernels: Regex over the function name or the demangled name, found anywhere in it; by default
                the marker's. The kernels that match are kept one by one and combined into one row.
            launches: Which of the launches of those kernels are kept: `all`, `first`, `last`, or the index
                of one, from 0 on or from -1 back; by default the marker's.
            label: Name of the measurement.
            kwargs: Keyword arguments of `fn`.

        Returns:
            Metrics by short name, in per cent, µs, bytes or counts.
        """
        __tracebackhide__ = True
        call = self._call("profile", label, fn, args, kwargs)
        regex = kernels or self._state.marker.regex
        try:
            which = (
                self._state.marker.launches if launches is None else check_launches(launches, f"for {call}")
            )
            selection = Selection(regex, which)
            result = self._instruments.profile(call, kernels=selection, metrics=self._state.metrics)
        except GpuperfError as error:
            self._state.errors.append(str(error))
            result = Profile(regex=regex or "", unavailable=str(error))
        self._keep(label, profile=result)
        return result

    def static(
        self,
        kernel: Any,
        /,
        signature: Mapping[str, str] | None = None,
        constexprs: Mapping[str, Any] | None = None,
        *,
        args: Sequence[Any] | Mapping[str, Any] | None = None,
        archs: Sequence[str] = ARCHITECTURES,
        label: str = "main",
        **options: Any,
    ) -> dict[str, StaticKernel]:
        """Compile a kernel for architectures that need not be there; nothing is launched, and no GPU needed.

        Each architecture is judged by itself, against the limits and against `baselines/static/`.

        Args:
            kernel: A Triton kernel, or CUDA source as a text or a path.
            signature: Types of a Triton kernel's arguments: `{"x_ptr": "*fp32:16", "n": "i32"}`.
            constexprs: Values of its constexprs, also of those that autotuning would choose.
            args: In place of the signature: the arguments of a launch, by position or name; tensors of
                `meta` will do.
            archs: What to compile for.
            label: Name of the measurement; each architecture is kept as `sm_90`, or `label[sm_90]`.
            options: Of a Triton launch (`num_warps`, `num_stages` …); of CUDA source `entry`, `block_size`,
                `shared_memory` and `flags`.

        Returns:
            What each architecture needs and what of it fits on an SM, by architecture.
        """
        __tracebackhide__ = True
        given = {
            "signature": signature,
            "args": args,
            "constexprs": constexprs,
            "options": options,
            "state": self._settings.root / STATE_FOLDER,
        }
        call = Call(self._state.nodeid, label, compile_static, (kernel, archs), given)
        try:
            compiled = self._instruments.static(call)
        except NoCompilerError as error:
            pytest.skip(str(error))
        except GpuperfError as error:
            self._fail(error)
        for arch, made in compiled.items():
            self._refuse_second("profile", label_of(label, arch))
            self._keep(label_of(label, arch), profile=profile_of(made))
        return compiled

    def limit(self, *limits: str) -> None:
        """Add limits such as `"memory_throughput >= 60"` or `"stall.barrier <= 25"`.

        They are judged at the end of the test, together with the marker's and the baseline file's.
        """
        __tracebackhide__ = True
        try:
            self._state.limits.extend(parse_limits(list(limits)))
        except GpuperfError as error:
            self._fail(error)

    def _call(
        self, part: str, label: str, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Call:
        __tracebackhide__ = True
        if not callable(fn):
            self._fail(
                GpuperfError(
                    f"the first argument is a {type(fn).__name__}",
                    expected="a callable, followed by its arguments",
                    next_step="write gpuperf.time(kernel, x), not gpuperf.time(kernel(x))",
                )
            )
        self._refuse_second(part, label)
        return Call(self._state.nodeid, label, fn, args, kwargs)

    def _refuse_second(self, part: str, label: str) -> None:
        __tracebackhide__ = True
        measured = self._state.measurements.get(label)
        if measured is not None and getattr(measured, part) is not None:
            self._fail(
                GpuperfError(
                    f"this test has measured {part.replace('_', '-')} under the label {label!r} already",
                    next_step="give the second one a name of its own: label='…'",
                )
            )

    def _keep(self, label: str, **part: Any) -> None:
        measured = self._state.measurements.get(label, Measurement())
        self._state.measurements[label] = msgspec.structs.replace(measured, **part)

    def _fail(self, error: GpuperfError) -> NoReturn:
        __tracebackhide__ = True
        self._state.errors.append(str(error))
        raise pytest.fail.Exception(f"gpuperf: {error}") from None


def _count(name: str, value: Any) -> int:
    """A number of bytes or operations, which may be numpy's, or a float without a fraction."""
    try:
        count = int(value)
    except (TypeError, ValueError, OverflowError):
        count = -1
    if count < 0 or count != value:
        raise GpuperfError(f"{name}={value!r}", expected=f"how many {name} one call has, a whole number")
    return count
