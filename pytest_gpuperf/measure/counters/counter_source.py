"""From a launch by raw names of ncu to the profile of a call: names to read, kernels to keep, the record."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from pytest_gpuperf import metrics as catalogue
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.ncu.tool import CACHE_CONTROL, CLOCK_CONTROL
from pytest_gpuperf.metrics import short_metrics
from pytest_gpuperf.metrics.combination import combine, weight_names, weights_to_ask_for
from pytest_gpuperf.records import KernelProfile, MetricValue, Profile

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from pytest_gpuperf.records.call import Call, Selection
    from pytest_gpuperf.records.passes import SelectedTest


RETURNS = re.compile(r"^(?:std::enable_if<.*?>::type|(?:static\s+)?void)\s+")
"""The type that a kernel returns, at the start of a demangled name."""
_NAMELESS = re.compile(r"\(anonymous namespace\)|<unnamed>|\{anonymous\}|`anonymous namespace'")
# Their characters are no brackets.
_OPERATOR = re.compile(r"\boperator\s*(<=>|<<=|>>=|<<|>>|<=|>=|->\*|->|<|>|\(\)|\[\])|->")
_PAIRS = {")": "(", ">": "<", "]": "["}


def function_name(demangled: str) -> str:
    """Extract the function name from a demangled name, as close to that of ncu as the text allows.

    `void at::vectorized_elementwise_kernel<4, float>(int, T2)` gives `vectorized_elementwise_kernel`.
    """
    operators: list[str] = []

    def hide(found: re.Match[str]) -> str:
        operators.append(re.sub(r"\s", "", found[0]))
        return "\0"

    text = _OPERATOR.sub(hide, _NAMELESS.sub("", demangled))
    brackets = "(<[" if text.count("[") == text.count("]") else "(<"
    opened: list[str] = []
    kept: list[str] = []
    hidden = iter(operators)
    for character in text:
        if character == "\0":
            operator = next(hidden, "")
            kept += [] if opened else [operator]
        elif character in brackets:
            if character == "(" and not opened and "".join(kept).strip() not in ("", "decltype"):
                break
            opened.append(character)
        elif character in _PAIRS:
            if _PAIRS[character] in opened and (character != ">" or opened[-1] == "<"):
                while opened.pop() != _PAIRS[character]:
                    pass
        elif not opened:
            kept.append(character)
    return "".join(kept).strip().rpartition("::")[2].rpartition(" ")[2] or demangled


class RawKernel(msgspec.Struct, frozen=True):
    """One launch of one kernel, by raw ncu names."""

    name: str
    """Function name, from `ncu --kernel-name-base function`."""
    demangled: str = ""
    """Name with template arguments and parameters."""
    grid: tuple[int, int, int] = (0, 0, 0)
    """Blocks in x, y, z; zeros if ncu did not report them."""
    block: tuple[int, int, int] = (0, 0, 0)
    """Threads in x, y, z; zeros if ncu did not report them."""
    ranges: tuple[str, ...] = ()
    """Names of all NVTX ranges around the launch: push/pop ranges outermost first, then start/end ranges."""
    metrics: dict[str, MetricValue] = {}
    """In ncu's base units (`ns`, `byte`, `%`); metrics without a value are left out."""
    units: dict[str, str] = {}
    """ncu's unit of each metric, empty for a pure number."""

    def matches(self, regex: str | None) -> bool:
        """Return True if a regex is found in the function name or the demangled name; None matches all."""
        return regex is None or any(re.search(regex, name) for name in (self.name, self.demangled))

    def profile(self, extra: Iterable[str] = (), short: Collection[str] | None = None) -> KernelProfile:
        """Make the record of the launch.

        Args:
            extra: Raw ncu names to keep in addition to short ones, in ncu's base unit.
            short: The short names to keep; None for all.
        """
        known = short_metrics(self.metrics, self.units)
        metrics = {name: value for name, value in known.items() if short is None or name in short}
        metrics.update({name: self.metrics[name] for name in extra if name in self.metrics})
        known = {**self.metrics, **known}
        weights = {
            name: known[name] for name in weight_names(metrics) if name in known and name not in metrics
        }
        return KernelProfile(
            name=self.name,
            demangled="" if self.demangled == self.name else self.demangled,
            grid=self.grid,
            block=self.block,
            metrics=metrics,
            weights=weights,
        )


def names_to_read(metrics: Iterable[str], chip: str) -> list[str]:
    """List the raw names to read for metrics, and for their weights when several launches combine.

    Args:
        metrics: Short names and raw ones.
        chip: Name of the GPU's chip; empty if it is unknown.
    """
    short, raw = by_kind(metrics)
    counted = [name for name in short if catalogue.METRICS[name].requests(chip)]
    of_weights, raw_weights = by_kind(weights_to_ask_for((*counted, *raw)))
    names = catalogue.ncu_metric_names((*short, *of_weights), chip)
    return list(dict.fromkeys((*names, *raw, *raw_weights)))


def by_kind(metrics: Iterable[str]) -> tuple[dict[str, None], dict[str, None]]:
    """Separate short names from raw ones, each once."""
    names = dict.fromkeys(metrics)
    short = {name: None for name in names if catalogue.get(name) is not None}
    return short, {name: None for name in names if name not in short}


class CounterSource:
    """Makes the profiles of calls from the kernels that ncu or CUPTI has read.

    Args:
        reader: `ncu` or `cupti`.
        chip: Name of the GPU's chip, such as `gh100`; empty if it is unknown.
        unavailable: Reason why this run has no counters; empty if it can have them.
    """

    def __init__(self, reader: str, chip: str, unavailable: str = "") -> None:
        self.unavailable = unavailable
        self._reader = reader
        self._chip = chip
        self._wanted: dict[str, SelectedTest] = {}

    def expect(self, tests: Iterable[SelectedTest]) -> None:
        """Store the requests of the tests."""
        self._wanted = {test.nodeid: test for test in tests}

    def choose(
        self,
        call: Call,
        kernels: Sequence[RawKernel],
        selection: Selection,
        list_kernels: Callable[[], list[str]],
    ) -> Sequence[RawKernel]:
        """Choose the kernels that a call and the marker of its test ask for.

        Args:
            call: The call.
            kernels: The profiled kernels.
            selection: The choice of the call.
            list_kernels: Lists the kernels that the call launches; called only if none matched.

        Raises:
            GpuperfError: No kernel is left, or the index asked for is too large.
        """
        wanted = self._wanted.get(call.nodeid)
        marker, regex = wanted.regex if wanted else None, selection.regex
        chosen = [kernel for kernel in kernels if kernel.matches(regex)]
        left = [kernel for kernel in chosen if kernel.matches(marker)]
        if not left:
            launched = list_kernels()
            named = [kernel.name for kernel in chosen] or [k for k in launched if re.search(regex or "", k)]
            if regex != marker and marker is not None and named:
                raise _left_out(call, regex, marker, named)
            raise _nothing_matched(call, regex, launched)
        return selection.pick(left, call)

    def profile_of(
        self, call: Call, kernels: Sequence[RawKernel], selection: Selection, metrics: Iterable[str]
    ) -> Profile:
        """Make the record of a call.

        Args:
            call: The call.
            kernels: The chosen kernels.
            selection: The choice of the call.
            metrics: Short names and raw ones to keep.

        Raises:
            GpuperfError: A raw name has no value.
        """
        short, raw = by_kind(metrics)
        for name in raw:
            if not any(name in kernel.metrics for kernel in kernels):
                raise self._no_value(name)
        profiles = tuple(kernel.profile(raw, short) for kernel in kernels)
        if len(profiles) == 1:
            profiles = (replace(profiles[0], weights={}),)
        wanted = self._wanted.get(call.nodeid)
        return Profile(
            kernels=profiles,
            combined=combine(profiles),
            regex=selection.regex or "",
            launches=selection.recorded,
            source=self._reader,
            cache_control=CACHE_CONTROL,
            clock_control=CLOCK_CONTROL,
            preset=wanted.preset if wanted else "",
            chip=self._chip,
        )

    def _no_value(self, metric: str) -> GpuperfError:
        """Return the error for a raw metric without a value."""
        return GpuperfError(
            f"{self._reader} has no value for the metric {metric!r}",
            expected="a metric that `ncu --query-metrics` lists for this GPU, with its suffix",
        )


def _left_out(call: Call, regex: str | None, marker: str, named: Iterable[str]) -> GpuperfError:
    names = ", ".join(dict.fromkeys(named))
    return GpuperfError(
        f"the regex {regex!r} of {call} finds {names}, which kernels={marker!r} of the marker leaves out",
        expected="kernels= of a call to choose among the kernels of the marker",
        next_step="add it to kernels= of the marker",
    )


def _nothing_matched(call: Call, regex: str | None, launched: list[str]) -> GpuperfError:
    if not launched:
        return GpuperfError(
            f"{call} launched no kernel to profile", expected="a callable that launches kernels on the GPU"
        )
    names = ", ".join(dict.fromkeys(launched))
    return GpuperfError(
        f"no kernel of {call} was profiled for the regex {regex!r}; these ran: {names}",
        expected="a regex found in a kernel's name, within kernels= of the marker if there is one",
    )
