"""What the instruments of the child pytests have in common: values that nobody reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import torch

from pytest_gpuperf.metrics import METRICS
from pytest_gpuperf.records import (
    Correctness,
    KernelProfile,
    MetricValue,
    Profile,
    Timing,
    Trace,
    TracedKernel,
    WarmUp,
)
from pytest_gpuperf.records.trace import KERNEL_CLASSES

if TYPE_CHECKING:
    from pytest_gpuperf.records import StaticKernel, TimingMode
    from pytest_gpuperf.records.call import Call, Reference
    from pytest_gpuperf.records.selection import Selection

WARM_UP_CALLS = 3
"""Compilation and autotuning happen in the first, lazy initialisation in the next."""


class AnyNumber(float):
    """What is not measured here: agrees with every comparison and stays itself in arithmetic.

    A test that asserts on a value between two calls would else end here, before the second is profiled.
    """

    def _agree(self, _other: object) -> bool:
        return True

    def _same(self, *_others: object) -> AnyNumber:
        return self

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _agree
    __hash__ = float.__hash__
    __add__ = __sub__ = __mul__ = __truediv__ = __floordiv__ = __mod__ = __pow__ = _same
    __radd__ = __rsub__ = __rmul__ = __rtruediv__ = __rfloordiv__ = __rmod__ = __rpow__ = _same
    __neg__ = __pos__ = __abs__ = __round__ = _same  # type: ignore[assignment]


ANY_NUMBER = AnyNumber(1)


class AnyMetrics(dict[str, MetricValue]):
    """A row that has every metric."""

    def __init__(self) -> None:
        super().__init__(dict.fromkeys(METRICS, ANY_NUMBER))

    def __missing__(self, name: str) -> MetricValue:
        return ANY_NUMBER


class ChildInstruments:
    """Answers every call with values that agree with whatever a test compares them with.

    They are not kept: the session that started this process has correctness, time and counters of its own.
    """

    @property
    def device(self) -> torch.device:
        """The current CUDA device."""
        return torch.device("cuda", torch.cuda.current_device())

    def check(self, call: Call, reference: Reference) -> Correctness:  # noqa: ARG002
        """Nothing: correctness belongs to the session."""
        return Correctness(passed=True)

    def warm_up(self, call: Call) -> WarmUp:
        """A few calls."""
        for _ in range(WARM_UP_CALLS):
            call()
        torch.cuda.synchronize()
        return WarmUp(seconds=ANY_NUMBER, launches=WARM_UP_CALLS, steady=True)

    def time(self, call: Call, *, mode: str, bytes: int, flops: int) -> Timing:  # noqa: ARG002
        """Nothing, and a time that agrees with every bound."""
        return Timing(
            mode=cast("TimingMode", "hot" if mode == "auto" else mode),
            time_us=ANY_NUMBER,
            spread_pct=ANY_NUMBER,
            blocks_us=(ANY_NUMBER,),
            calls_per_block=1,
            bytes=bytes,
            flops=flops,
        )

    def profile(self, call: Call, *, kernels: Selection, metrics: tuple[str, ...]) -> Profile:  # noqa: ARG002
        """Nothing, and a row that has every metric."""
        row = AnyMetrics()
        return Profile(
            kernels=(KernelProfile(name="", metrics=row),), combined=row, regex=kernels.regex or ""
        )

    def trace(self, call: Call) -> Trace:  # noqa: ARG002
        """Nothing, for another profiler may hold CUPTI: a kernel of each class, with figures that agree."""
        number = ANY_NUMBER
        count = cast("int", number)
        kernels = tuple(
            TracedKernel(
                name="", kernel_class=name, calls=count, total_us=number, mean_us=number, share_pct=number
            )
            for name in KERNEL_CLASSES
        )
        return Trace(
            kernels=kernels,
            launches=count,
            host_launches=count,
            span_us=number,
            busy_us=number,
            gpu_time_us=number,
            gpu_busy_pct=number,
            launch_gap_us=number,
            copies=count,
            copy_bytes=count,
            copy_us=number,
            memsets=count,
            memset_us=number,
            synchronizations=count,
            class_shares_pct=dict.fromkeys(KERNEL_CLASSES, number),
            tensor_core_share_pct=number,
        )

    def static(self, call: Call) -> dict[str, StaticKernel]:
        """Compile: what a test asserts of it is known here too, and the session has it at once then."""
        kernels: dict[str, StaticKernel] = call()
        return kernels
