"""Which of a call's kernels were asked for, and the profile that is made of them."""

from __future__ import annotations

import re
from dataclasses import dataclass
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
    from pytest_gpuperf.records.selection import Selection


@dataclass(frozen=True)
class Wanted:
    """What one test wants to be read."""

    nodeid: str
    regex: str | None
    """Its marker's: what it leaves out is not profiled, whatever a call asks for. None for all kernels."""
    metrics: tuple[str, ...]
    """Short names and raw ones."""
    preset: str = ""
    """The sets that they are from; empty for the default."""


def names_to_read(metrics: Iterable[str], chip: str) -> list[str]:
    """Raw names to ask for, so that metrics can be filled, and weighted where several launches combine.

    Args:
        metrics: Short names and raw ones.
        chip: Name of the GPU's chip; empty where it is not known.
    """
    short, raw = by_kind(metrics)
    counted = [name for name in short if catalogue.METRICS[name].requests(chip)]
    of_weights, raw_weights = by_kind(weights_to_ask_for((*counted, *raw)))
    names = catalogue.ncu_metric_names((*short, *of_weights), chip)
    return list(dict.fromkeys((*names, *raw, *raw_weights)))


def by_kind(metrics: Iterable[str]) -> tuple[dict[str, None], dict[str, None]]:
    """Short names and raw ones, each once."""
    names = dict.fromkeys(metrics)
    short = {name: None for name in names if catalogue.get(name) is not None}
    return short, {name: None for name in names if name not in short}


def choose(
    call: Call,
    kernels: Sequence[RawKernel],
    selection: Selection,
    wanted: Wanted | None,
    list_kernels: Callable[[], list[str]],
) -> Sequence[RawKernel]:
    """The kernels of a call that it and its marker ask for.

    Args:
        call: The call.
        kernels: Those that were profiled.
        selection: Chooses among them.
        wanted: What its test asks for.
        list_kernels: Names the kernels that the call launches; asked only when none matched.

    Raises:
        GpuperfError: None is left, or fewer than the index of the one that is asked for.
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
    wanted: Wanted | None,
    source: str,
    cache_control: str,
    clock_control: str,
    chip: str,
    read_at: str = "",
) -> Profile:
    """Kernels as a record.

    Args:
        kernels: Those that were chosen.
        metrics: Short names and raw ones to keep.
        selection: By which the call chose them.
        wanted: What its test asked for.
        source: What read them.
        cache_control: As ncu calls it.
        clock_control: As ncu calls it.
        chip: Name of the GPU's chip.
        read_at: When an earlier run read them; empty where this one did.
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
        read_at=read_at,
    )


def _left_out(call: Call, regex: str | None, marker: str, named: Iterable[str]) -> GpuperfError:
    names = ", ".join(dict.fromkeys(named))
    return GpuperfError(
        f"the regex {regex!r} of {call} finds {names}, which the marker's kernels={marker!r} leaves out",
        expected="kernels= in a call to choose among the kernels of the marker's",
        next_step="add it to the marker's kernels=",
    )


def _nothing_matched(call: Call, regex: str | None, launched: list[str]) -> GpuperfError:
    if not launched:
        return GpuperfError(
            f"{call} launched no kernel to profile", expected="a callable that launches kernels on the GPU"
        )
    names = ", ".join(dict.fromkeys(launched))
    return GpuperfError(
        f"no kernel of {call} was profiled for the regex {regex!r}; these ran: {names}",
        expected="a regex found in a kernel's name, and part of the marker's kernels= where the test has one",
    )
