"""Check the names of metrics before a run: ncu accepts wrong names silently and gives no value."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from pytest_gpuperf import metrics as catalogue
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.cupti.chip_metrics import (
    NoHostLibraryError,
    is_counted,
    passes_each,
    supported_metrics,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

_SUFFIXES = ".sum, .avg, .max, .min, .avg.pct_of_peak_sustained_elapsed; .pct or .ratio for a ratio"


def check_names(names: Iterable[str], chip: str) -> None:
    """Refuse names that are not metrics of the chip, except those that ncu makes itself (`launch__*`).

    If CUPTI's host library is not installed or does not know the chip, only short names are checked.

    Args:
        names: Short names and raw ones.
        chip: Name of the chip; empty if it is unknown.

    Raises:
        GpuperfError: A name is unknown, or the chip lacks it.
    """
    raw = []
    for name in dict.fromkeys(names):
        if catalogue.is_raw_name(name):
            raw.append(name)
        elif catalogue.get(name) is None:
            raise _misspelt(name, "", catalogue.nearest(name))
    if not raw or not chip:
        return
    try:
        base = supported_metrics(chip)
        each = passes_each(chip, [[name] for name in raw])
    except NoHostLibraryError:
        return
    units = {name.partition("__")[0] for name in base}
    for name, passes in zip(raw, each, strict=True):
        if passes is None and is_counted(name, units):
            raise _unknown(name, chip, base)


def _unknown(name: str, chip: str, base: frozenset[str]) -> GpuperfError:
    stem, dot, suffix = name.partition(".")
    if stem in base:
        return GpuperfError(
            f"the metric {stem} has no {dot + suffix!r}" if dot else f"the metric {stem!r} has no suffix",
            expected=f"one such as {_SUFFIXES}",
        )
    elsewhere = _same_metric(name, chip)
    if elsewhere is not None:
        there = f"; there it is {' and '.join(elsewhere)}" if elsewhere else ""
        return GpuperfError(f"the metric {name} is unavailable on {chip.upper()}{there}")
    near = [found + dot + suffix for found in difflib.get_close_matches(stem, base)]
    return _misspelt(name, f" on {chip.upper()}", near)


def _same_metric(name: str, chip: str) -> tuple[str, ...] | None:
    """List the names of this chip for a name of another chip; None if no chip has it."""
    for metric in catalogue.METRICS.values():
        if any(name in source.names for source in metric.sources if source.requested):
            return metric.requests(chip)
    return None


def _misspelt(name: str, where: str, near: list[str]) -> GpuperfError:
    return GpuperfError(
        f"there is no metric {name!r}{where}",
        expected="a name that `gpuperf metrics` or `ncu --query-metrics` lists, the latter with a suffix",
        next_step=f"did you mean {' or '.join(near)}?" if near else "",
    )
