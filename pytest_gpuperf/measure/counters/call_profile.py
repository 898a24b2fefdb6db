"""From the kernels of a call to its profile: raw names to read, kernels to keep, the record."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec.structs import replace

from pytest_gpuperf import metrics as catalogue
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.metrics.combine import combine, weights_to_ask_for
from pytest_gpuperf.records import Profile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pytest_gpuperf.measure.ncu.raw_kernel import RawKernel
    from pytest_gpuperf.records.call import Call
    from pytest_gpuperf.records.passes import SelectedTest
    from pytest_gpuperf.records.selection import Selection


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


def choose(
    call: Call,
    kernels: Sequence[RawKernel],
    selection: Selection,
    wanted: SelectedTest | None,
    list_kernels: Callable[[], list[str]],
) -> Sequence[RawKernel]:
    """Choose the kernels that a call and the marker of its test ask for.

    Args:
        call: The call.
        kernels: The profiled kernels.
        selection: The choice of the call.
        wanted: The request of the test.
        list_kernels: Lists the kernels that the call launches; called only if none matched.

    Raises:
        GpuperfError: No kernel is left, or the index asked for is too large.
    """
    marker = wanted.regex if wanted else None
    regex = selection.regex
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
    kernels: Iterable[RawKernel],
    metrics: Iterable[str],
    *,
    selection: Selection,
    wanted: SelectedTest | None,
    source: str,
    cache_control: str,
    clock_control: str,
    chip: str,
) -> Profile:
    """Make the record of a call.

    Args:
        kernels: The chosen kernels.
        metrics: Short names and raw ones to keep.
        selection: The choice of the call.
        wanted: The request of the test.
        source: The reader: `ncu` or `cupti`.
        cache_control: In ncu's words.
        clock_control: In ncu's words.
        chip: Name of the GPU's chip.
    """
    short, raw = by_kind(metrics)
    profiles = tuple(kernel.profile(raw, short) for kernel in kernels)
    if len(profiles) == 1:
        profiles = (replace(profiles[0], weights={}),)
    return Profile(
        kernels=profiles,
        combined=combine(profiles),
        regex=selection.regex or "",
        launches=selection.recorded,
        source=source,
        cache_control=cache_control,
        clock_control=clock_control,
        preset=wanted.preset if wanted else "",
        chip=chip,
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
