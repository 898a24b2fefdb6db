"""One profiled launch by raw ncu names, before it gets short metrics."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from pytest_gpuperf.metrics import short_metrics
from pytest_gpuperf.metrics.combination import weight_names
from pytest_gpuperf.records import KernelProfile, MetricValue

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable


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
