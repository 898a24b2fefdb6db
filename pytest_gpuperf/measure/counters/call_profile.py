"""From the kernels of a call to its profile: raw names to read, kernels to keep, the record."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec.structs import replace

from pytest_gpuperf import metrics as catalogue
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.ncu.tool import CACHE_CONTROL, CLOCK_CONTROL
from pytest_gpuperf.metrics.combination import combine, weights_to_ask_for
from pytest_gpuperf.records import Profile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pytest_gpuperf.measure.ncu.raw_kernel import RawKernel
    from pytest_gpuperf.records.call import Call, Selection
    from pytest_gpuperf.records.passes import SelectedTest


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
