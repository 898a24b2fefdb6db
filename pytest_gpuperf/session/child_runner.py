"""The base of the children: pytest processes that another run started. They measure, and judge nothing."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias, TypeVar, get_type_hints

from pytest_gpuperf.metrics import METRICS
from pytest_gpuperf.records import (
    Accuracy,
    AgainstTiming,
    Correctness,
    Fuzzing,
    KernelProfile,
    MetricValue,
    OtherTime,
    Profile,
    SingleCall,
    Timing,
    Trace,
    TracedKernel,
    WarmUp,
    Workload,
)
from pytest_gpuperf.records.call import wait_for_launches
from pytest_gpuperf.records.trace import KERNEL_CLASSES
from pytest_gpuperf.session.runner import Runner

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

    import pytest

    from pytest_gpuperf.records.call import Call, FuzzCall, Selection
    from pytest_gpuperf.session.runner import CallSource
    from pytest_gpuperf.settings.settings import Settings

OPTIONS_OF_A_CHILD: Mapping[str, object] = {
    # Nobody can answer a debugger here.
    "usepdb": False,
    "trace": False,
    # After a failed test the others still have to be profiled.
    "maxfail": 0,
    "cacheclear": False,
    # The parent has these files open.
    "xmlpath": None,
    "log_file": os.devnull,
    "color": "no",
    # Nobody reads it, and for its line of it Hypothesis imports itself.
    "no_header": True,
}
"""Options that a child does not take from the parent's command line, by pytest's `dest`."""
PLUGINS_NOT_IN_A_CHILD = ("lfplugin", "nfplugin", "stepwiseplugin")
"""Names of pytest's plugins that choose tests, which the plan does, and write in the parent's cache."""

Kind = TypeVar("Kind")
Part: TypeAlias = Literal["check", "warm_up", "time", "profile", "trace"]


def make_child(config: pytest.Config) -> None:
    """Make this pytest a child, before other plugins read their options."""
    vars(config.option).update(OPTIONS_OF_A_CHILD)
    for name in PLUGINS_NOT_IN_A_CHILD:
        config.pluginmanager.set_blocked(name)


class AnyNumber(float):
    """A value that is not measured here: it agrees with every comparison and survives arithmetic.

    Otherwise a test that asserts on a value would end before its next call, which is then never profiled.
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


def _of_any_numbers(kind: type[Kind], **known: object) -> Kind:
    """Return a record in which each field that may be a number, and is not known, is any number."""
    hints = get_type_hints(kind)
    numbers = {name: ANY_NUMBER for name, hint in hints.items() if hint in (int, float, float | None)}
    texts = {name: "" for name, hint in hints.items() if hint is str}
    return kind(**{**texts, **numbers, **known})


class ChildSource:
    """Answers with values that pass every comparison; nobody keeps them.

    Subclasses choose the parts for which a call runs, and how it runs.
    """

    runs_for: ClassVar[Container[Part]] = ("warm_up",)
    warm_up_calls: ClassVar[int] = 3
    """The first call compiles and autotunes, the second initialises lazily."""

    def check(self, call: Call) -> Correctness:
        """Return a passed check."""
        self._run_for("check", call)
        return _of_any_numbers(Correctness, passed=True, accuracy=_of_any_numbers(Accuracy))

    def fuzz(self, call: FuzzCall) -> Fuzzing:
        """Return a search without a failure. Nothing is called: it measures nothing."""
        del call
        return _of_any_numbers(Fuzzing, passed=True)

    def warm_up(self, call: Call) -> WarmUp:
        """Return a finished warm-up."""
        self._run_for("warm_up", call)
        return WarmUp(seconds=ANY_NUMBER, launches=self.warm_up_calls, steady=True)

    def code(self, _call: Call) -> None:
        """Look for no code: the parent does, and a tool may hold CUPTI here."""

    def time(self, call: Call, *, mode: str, bytes: int, flops: int) -> Timing:
        """Return a time that agrees with every limit."""
        self._run_for("time", call)
        return _of_any_numbers(
            Timing,
            mode="hot" if mode == "auto" else mode,
            blocks_us=(ANY_NUMBER,),
            calls_per_block=1,
            work=_of_any_numbers(Workload, bytes=bytes, flops=flops),
            single_call=_of_any_numbers(SingleCall),
            other=_of_any_numbers(OtherTime),
        )

    def in_turn(self, first: Call, other: Call, *, mode: str) -> AgainstTiming:
        """Return no ratio; nothing is called."""
        del other, mode
        return AgainstTiming(ref=first.label, commit="")

    def profile(self, call: Call, kernels: Selection) -> Profile:
        """Return one kernel that has every metric."""
        self._run_for("profile", call)
        row = AnyMetrics()
        return Profile(
            kernels=(KernelProfile(name="", metrics=row),), combined=row, regex=kernels.regex or ""
        )

    def trace(self, call: Call) -> Trace:
        """Return a kernel of each class. Nothing is traced: another profiler may hold CUPTI."""
        self._run_for("trace", call)
        kernels = tuple(_of_any_numbers(TracedKernel, kernel_class=name) for name in KERNEL_CLASSES)
        shares = dict.fromkeys(KERNEL_CLASSES, ANY_NUMBER)
        return _of_any_numbers(Trace, kernels=kernels, class_shares_pct=shares)

    def _run_for(self, part: Part, call: Call) -> None:
        if part in self.runs_for:
            for _ in range(self.warm_up_calls if part == "warm_up" else 1):
                self._run(call)

    def _run(self, call: Call) -> None:
        import torch

        wait_for_launches(call())
        torch.cuda.synchronize()


class ChildRunner(Runner):
    """Runs tests for its parent, which reads baselines, judges and reports.

    Args:
        settings: The options.
        source: Answers the calls.
        only: Node ids of the tests to run; None for all that pytest selects.
    """

    on_gpu = True

    def __init__(self, settings: Settings, source: CallSource, only: Iterable[str] | None = None) -> None:
        super().__init__(settings, source, None)
        self.only = frozenset(only) if only is not None else None
