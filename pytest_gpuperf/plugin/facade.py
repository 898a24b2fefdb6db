"""The object behind the `gpuperf` fixture."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest
from msgspec.structs import replace

from pytest_gpuperf.errors import GpuperfError, NoCompilerError, NoGpuError, show_repr
from pytest_gpuperf.judge.settled_suspects import SpeedUp, speed_up
from pytest_gpuperf.metrics.chips import with_peaks
from pytest_gpuperf.plugin.recorder import (
    Recorder,
    check_callable,
    check_count,
    check_exceptions,
    check_expected,
    check_label,
    check_mode,
    check_mutates,
    check_seconds,
    check_static,
    fails_test,
    reference_of,
)
from pytest_gpuperf.records import Profile
from pytest_gpuperf.records.call import LAYOUTS, Call, FuzzCall, Selection, check_kernels, check_launches
from pytest_gpuperf.records.static_profiles import ARCHITECTURES, label_of, profile_of
from pytest_gpuperf.registry import instrument
from pytest_gpuperf.session.child_runner import ANY_NUMBER

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    import torch

    from pytest_gpuperf.features.fuzz.case import FuzzCase
    from pytest_gpuperf.records import Correctness, Fuzzing, Measurement, StaticKernel, Timing, Trace, WarmUp
    from pytest_gpuperf.records.call import Launches

    Factory: TypeAlias = Callable[[int], Any]
    GpuWarmUp: TypeAlias = Callable[..., WarmUp]
    GpuTimer: TypeAlias = Callable[..., Timing]
    Ncu: TypeAlias = Callable[..., Profile]


class Gpuperf(Recorder):
    """Checks, times, profiles and traces callables, and keeps the measurements for the verdict.

    Every method takes a plain callable with its arguments; keyword arguments that the method does
    not know go to the callable. `label` names a measurement if a test measures several callables.
    """

    @property
    def device(self) -> torch.device:
        """The device for the test's tensors: the GPU, or `meta` when a recording is replayed."""
        import torch

        on_gpu = self._runner.on_gpu
        return torch.device("cuda", torch.cuda.current_device()) if on_gpu else torch.device("meta")

    @fails_test
    def __call__(
        self,
        fn: Callable[..., Any],
        /,
        *args: Any,
        expected: Any,
        inputs: Factory | None = None,
        bytes: int = 0,
        flops: int = 0,
        rtol: float | None = None,
        atol: float | None = None,
        equal_nan: bool = False,
        mutates: bool | Collection[int | str] = (),
        mode: str | None = None,
        kernels: str | Sequence[str] | None = None,
        launches: Launches | None = None,
        limits: Mapping[str, str] | Iterable[str] | str = (),
        tolerance: float | None = None,
        label: str = "main",
        **kwargs: Any,
    ) -> Measurement:
        """Check, time and profile in one line.

        Takes the arguments of `check`, `time` and `profile`; `limits`, limits of this call that are judged at
        the end of the test; and `tolerance`, the accepted slowdown of the test in percent: both as in the
        marker.

        Returns:
            All three records.
        """
        __tracebackhide__ = True
        if limits:
            self._state.state_limits(limits, label)
        self._state.state_tolerance(tolerance)
        self.check(
            fn,
            *args,
            expected=expected,
            inputs=inputs,
            rtol=rtol,
            atol=atol,
            equal_nan=equal_nan,
            mutates=mutates,
            label=label,
            **kwargs,
        )
        self.time(fn, *args, inputs=inputs, bytes=bytes, flops=flops, mode=mode, label=label, **kwargs)
        self.profile(fn, *args, inputs=inputs, kernels=kernels, launches=launches, label=label, **kwargs)
        return self._state.measurements[label]

    @fails_test
    def compare(
        self,
        fns: Mapping[str, Callable[..., Any]],
        /,
        *args: Any,
        expected: Any,
        mode: str | None = None,
        limits: Mapping[str, str] | Iterable[str] | str = (),
        **options: Any,
    ) -> dict[str, SpeedUp]:
        """Check, time and profile several callables, then time each in turn with the first.

        Limits can name the ratios of their times: `gpuperf.limit("cublas / mine >= 1.1")`.

        Args:
            fns: The callables by label.
            args: Their arguments.
            expected: As in `check`, for all of them.
            mode: As in `time`; callables that do not allow it are compared by their kernels.
            limits: Limits of the test.
            options: Other arguments of `gpuperf(…)`, and keyword arguments of the callables.

        Returns:
            The time of the first over that of each other, by its label, give or take three standard errors.
        """
        __tracebackhide__ = True
        are_two = isinstance(fns, Mapping) and len(fns) > 1 and all(map(callable, fns.values()))
        if not are_two or "label" in options:
            raise GpuperfError(
                f"compare() got {show_repr(fns)}",
                expected="a dictionary of two callables or more by their labels, and no label=",
                next_step='write gpuperf.compare({"cublas": f, "mine": g}, x, expected=…)',
            )
        self._state.state_limits(limits)
        for label, fn in fns.items():
            self(fn, *args, expected=expected, mode=mode, label=label, **options)
        source, found = self._runner.source, {}
        assert not isinstance(source, NoGpuError)
        first, *others = (self._checked[label] for label in fns)
        first = first.with_arguments() if self._runner.on_gpu else first
        for other in others:
            call = replace(first, label=other.label, fn=other.fn)
            result = source.in_turn(first, call, mode=check_mode(mode, self._runner.settings.mode))
            self._keep(call.label, in_turn=result)
            # A side process of a comparison, and a profiler's, time nothing here.
            found[call.label] = speed_up(result) or SpeedUp(ANY_NUMBER, ANY_NUMBER, ANY_NUMBER)
        return found

    @fails_test
    def check(
        self,
        fn: Callable[..., Any],
        /,
        *args: Any,
        expected: Any,
        inputs: Factory | None = None,
        rtol: float | None = None,
        atol: float | None = None,
        equal_nan: bool = False,
        mutates: bool | Collection[int | str] = (),
        label: str = "main",
        **kwargs: Any,
    ) -> Correctness:
        """Fail the test at once if the output of `fn` is not the expected one.

        Also fails if elements of the output were never written, if the output has NaN, or if `fn` changed
        an input.

        Args:
            fn: The callable under test.
            args: Its arguments.
            expected: A reference callable that takes the same arguments, or the expected tensors. Arrays of
                JAX, CuPy, numba-cuda and NumPy count as tensors.
            inputs: In place of arguments, a callable that makes them: `inputs(seed)` returns a tuple of
                positional arguments, a dict of keyword arguments, or a tuple of both. `time` takes others
                than `check`.
            rtol: Relative tolerance; by default by dtype, as in `torch.testing.assert_close`.
            atol: Absolute tolerance; give both or neither.
            equal_nan: Whether NaN equals NaN; otherwise NaN in the output fails.
            mutates: Positions, or names of keyword arguments, that `fn` may write to; True for all.
            label: Name of the measurement.
            kwargs: Keyword arguments of `fn`.

        Returns:
            The largest differences and their places.
        """
        __tracebackhide__ = True
        source, call = self._begin("correctness", label, fn, args, kwargs, inputs)
        reference = reference_of(check_expected(expected), rtol, atol, equal_nan, mutates)
        call = replace(call, reference=reference)
        self._checked[label] = call.without_arguments()
        result = source.check(call)
        self._keep(label, correctness=result)
        if not result.passed:
            pytest.fail(result.failure if label == "main" else f"{label}: {result.failure}")
        return result

    @fails_test
    def warm_up(self, fn: Callable[..., Any], /, *args: Any, label: str = "main", **kwargs: Any) -> WarmUp:
        """Run `fn` until its time on the GPU is steady. `time` does so by itself.

        Returns:
            Seconds and launches of the warm-up, and whether the time became steady before the cap.
        """
        __tracebackhide__ = True
        source, call = self._begin("warm_up", label, fn, args, kwargs)
        result = source.warm_up(call)
        self._keep(label, warm_up=result)
        return result

    @fails_test
    def time(
        self,
        fn: Callable[..., Any],
        /,
        *args: Any,
        inputs: Factory | None = None,
        bytes: int = 0,
        flops: int = 0,
        mutates: bool | Collection[int | str] | None = None,
        mode: str | None = None,
        label: str = "main",
        **kwargs: Any,
    ) -> Timing:
        """Time one call of `fn` on the GPU, after a warm-up.

        Then run some of the timed calls again. Outputs that are wrong on the timed values fail the test; a
        warning tells of those on other values.

        Args:
            fn: The callable to time; it is called many times with the same arguments.
            args: Its arguments.
            inputs: Makes the arguments, as in `check`.
            bytes: Bytes that one call has to move, for GB/s.
            flops: Floating-point operations of one call, for TFLOP/s.
            mutates: Arguments that `fn` may write to, as in `check`; by default those of the check, or any.
                They are restored after the timing; a change to another one fails the test.
            mode: `auto`, `hot`, `cold`, `queued`, `kernels` or `host`; by default that of `--gpuperf-mode`.
            label: Name of the measurement.
            kwargs: Keyword arguments of `fn`.

        Returns:
            Time in microseconds per call, its spread, and its timing mode.
        """
        __tracebackhide__ = True
        source, call = self._begin("timing", label, fn, args, kwargs, inputs)
        call = call.after(self._checked.get(label), None if mutates is None else check_mutates(mutates))
        code = source.code(call)
        mode = check_mode(mode, self._runner.settings.mode)
        result = source.time(
            call, mode=mode, bytes=check_count("bytes", bytes), flops=check_count("flops", flops)
        )
        if self._runner.report is not None:
            result = with_peaks(result, self._runner.report.judge.environment.gpu)
        called = call.fingerprint(result.mode, result.bytes, result.flops)
        self._keep(label, code=code, call=called, timing=result)
        if result.refused:
            pytest.fail(f"gpuperf: {result.refused}")
        return result

    @fails_test
    def profile(
        self,
        fn: Callable[..., Any],
        /,
        *args: Any,
        inputs: Factory | None = None,
        kernels: str | Sequence[str] | None = None,
        launches: Launches | None = None,
        label: str = "main",
        **kwargs: Any,
    ) -> Profile:
        """Read hardware counters of the kernels that one call of `fn` launches.

        A kernel that cannot be found or a metric that does not exist fails the test at its end: later calls
        are still timed.

        Args:
            fn: The callable to profile.
            args: Its arguments.
            inputs: Makes the arguments, as in `check`.
            kernels: Regex over the function name or the demangled name, found anywhere in it, or a list of
                them; by default the marker's. The kernels that match are kept one by one and combined
                into one row.
            launches: Launches of those kernels to keep: `all`, `first`, `last`, or the index of one, from 0
                on or from -1 back; by default the marker's.
            label: Name of the measurement.
            kwargs: Keyword arguments of `fn`.

        Returns:
            Metrics by short name, in percent, µs, bytes or counts.
        """
        __tracebackhide__ = True
        source, call = self._begin("profile", label, fn, args, kwargs, inputs)
        regex, which = self._state.marker.regex, self._state.marker.launches
        try:
            if kernels is not None:
                regex = check_kernels(kernels, f"for {call}")
            if launches is not None:
                which = check_launches(launches, f"for {call}")
            result = source.profile(call, Selection(regex, which))
        except GpuperfError as error:
            self._state.errors.append(str(error))
            result = Profile(regex=regex or "", unavailable=str(error))
        self._keep(label, profile=result)
        return result

    @fails_test
    def trace(self, fn: Callable[..., Any], /, *args: Any, label: str = "main", **kwargs: Any) -> Trace:
        """Record the kernels that one call of `fn` runs, their times, and how long the GPU was idle.

        torch.profiler records after a warm-up, without ncu; the Chrome trace is kept next to the run.

        Args:
            fn: The callable to trace; it is called about twenty times with the same arguments.
            args: Its arguments.
            label: Name of the measurement.
            kwargs: Keyword arguments of `fn`.

        Returns:
            The kernel table of one call, in microseconds and percent.
        """
        __tracebackhide__ = True
        source, call = self._begin("trace", label, fn, args, kwargs)
        result = source.trace(call)
        self._keep(label, trace=result)
        return result

    @fails_test
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
        """Compile a kernel for several architectures, without a GPU and without launching it.

        Each architecture is judged by itself, against the limits and against `baselines/static/`.

        Args:
            kernel: A Triton kernel, or CUDA source as a text or a path.
            signature: Types of a Triton kernel's arguments: `{"x_ptr": "*fp32:16", "n": "i32"}`.
            constexprs: Values of its constexprs, also of those that autotuning would choose.
            args: In place of the signature: the arguments of a launch, by position or name; `meta` tensors
                are enough.
            archs: The architectures.
            label: Name of the measurement; each architecture is kept as `sm_90`, or `label[sm_90]`.
            options: For a Triton launch `num_warps`, `num_stages` …; for CUDA source `entry`, `block_size`,
                `shared_memory` and `flags`.

        Returns:
            Registers, memory and occupancy of the compiled kernel, by architecture.
        """
        __tracebackhide__ = True
        given = {"signature": signature, "args": args, "constexprs": constexprs}
        check_label(label)
        check_static(given, archs)
        call = Call(self._state.nodeid, label, _compiled, (kernel, archs), {**given, "options": options})
        try:
            compiled = self._runner.static(call)
        except NoCompilerError as error:
            pytest.skip(str(error))
        for arch, made in compiled.items():
            self._refuse_second("profile", label_of(label, arch))
            self._keep(label_of(label, arch), profile=profile_of(made))
        return compiled

    @fails_test
    def fuzz(
        self,
        fn: Callable[..., Any],
        /,
        *,
        expected: Callable[..., Any],
        shapes: str,
        dtypes: Any,
        sizes: Mapping[str, Any] | None = None,
        layouts: Collection[str] = LAYOUTS,
        inputs: Callable[[FuzzCase], Any] | None = None,
        refuses: type[Exception] | tuple[type[Exception], ...] = (),
        rtol: float | None = None,
        atol: float | None = None,
        equal_nan: bool = False,
        mutates: bool | Collection[int | str] = (),
        seconds: float = 5.0,
        label: str = "main",
    ) -> Fuzzing:
        """Fail the test with the smallest shape, type and strides for which the output is wrong.

        Compares as `check` does, for fixed cases and then for those that Hypothesis draws, until the time is
        over. Hypothesis keeps the failure for the next run.

        Args:
            fn: The callable under test.
            expected: A reference callable that takes the same arguments. A case in which it raises does not
                count.
            shapes: Dimensions of each tensor, by name or size: `(m,k),(k,n)`; `...` for any number of them.
            dtypes: Types of the tensors; all tensors of a case have one type.
            sizes: For a name its sizes, such as `[64, 128]` or `range(1, 4097)`; by default any, also 0.
            layouts: Some of `contiguous`, `transposed`, `padded` (gaps between rows), `strided` (every second
                element) and `misaligned` (begins one element late).
            inputs: Makes the arguments of a case from `case.tensors`, `case.sizes`, `case.dtype` and
                `case.device`; by default they are the tensors.
            refuses: Exceptions by which `fn` may refuse a case.
            rtol: As in `check`.
            atol: As in `check`.
            equal_nan: As in `check`.
            mutates: As in `check`.
            seconds: Time to search; a failure is made smaller for at most as long again.
            label: Name of the measurement.

        Returns:
            The number of cases and the time they took.
        """
        __tracebackhide__ = True
        source, call = self._begin("fuzz", label, fn)
        result = source.fuzz(
            FuzzCall(
                call.nodeid,
                label,
                fn,
                reference=reference_of(check_callable("expected", expected), rtol, atol, equal_nan, mutates),
                shapes=shapes,
                sizes={} if sizes is None else sizes,
                dtypes=dtypes,
                layouts=layouts,
                make=None if inputs is None else check_callable("inputs", inputs),
                refuses=check_exceptions(refuses),
                seconds=check_seconds(seconds),
            )
        )
        self._keep(label, fuzz=result)
        if not result.passed:
            pytest.fail(result.failure)
        return result

    @fails_test
    def limit(self, *limits: str) -> None:
        """Add limits such as `"memory_throughput >= 60"` or `"stall.barrier <= 25"`.

        They are judged at the end of the test, together with the marker's and the baseline file's.
        """
        __tracebackhide__ = True
        self._state.state_limits(limits)


def _compiled(*args: Any, **given: Any) -> dict[str, StaticKernel]:
    # Imported by the call: a replay compiles nothing.
    kernels: dict[str, StaticKernel] = instrument("static").compile_static(*args, **given)
    return kernels
