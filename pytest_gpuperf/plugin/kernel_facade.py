"""What the `gpuperf` fixture says of the kernels inside a call: counters, launches, compiled code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import msgspec
import pytest

from pytest_gpuperf.errors import GpuperfError, NoGpuError
from pytest_gpuperf.measure.static.compile import compile_static
from pytest_gpuperf.measure.static.kernel import ARCHITECTURES, NoCompilerError, label_of, profile_of
from pytest_gpuperf.records import Measurement, Profile
from pytest_gpuperf.records.call import Call
from pytest_gpuperf.records.runs import STATE_FOLDER
from pytest_gpuperf.records.selection import Selection, check_launches

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pytest_gpuperf.records import StaticKernel, Trace
    from pytest_gpuperf.records.selection import Launches
    from pytest_gpuperf.session.base_instruments import Instruments
    from pytest_gpuperf.session.marker import ItemState
    from pytest_gpuperf.settings.settings import Settings


class KernelFacade:
    """Asks the instruments, and keeps what they answer in the state of the test."""

    def __init__(self, state: ItemState, instruments: Instruments, settings: Settings) -> None:
        self._state = state
        self._instruments = instruments
        self._settings = settings

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

    def trace(self, fn: Callable[..., Any], /, *args: Any, label: str = "main", **kwargs: Any) -> Trace:
        """What one call of `fn` runs on the GPU: every kernel, how long, and how long the GPU was idle.

        Recorded by torch.profiler after a warm-up, without ncu; the Chrome trace is kept beside the run.

        Args:
            fn: What is traced. It is called some twenty times with the same arguments.
            args: Its arguments.
            label: Name of the measurement.
            kwargs: Keyword arguments of `fn`.

        Returns:
            The kernel table of one call, in microseconds and per cent.
        """
        __tracebackhide__ = True
        call = self._call("trace", label, fn, args, kwargs)
        try:
            result = self._instruments.trace(call)
        except GpuperfError as error:
            self._fail(error)
        self._keep(label, trace=result)
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
        # Where nothing can be measured, the line of the test that asked first tells nothing.
        pytrace = not isinstance(error, NoGpuError)
        raise pytest.fail.Exception(f"gpuperf: {error}", pytrace=pytrace) from None
