"""One profiled launch as ncu names things, before the catalogue gives it short names."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from pytest_gpuperf.measure.ncu.rules import Rule
from pytest_gpuperf.metrics import short_metrics
from pytest_gpuperf.metrics.combine import weight_names
from pytest_gpuperf.records import KernelProfile, MetricValue

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable


class RawKernel(msgspec.Struct, frozen=True):
    """One launch of one kernel, by raw ncu names."""

    name: str
    """Function name, as `ncu --kernel-name-base function` shows it."""
    demangled: str = ""
    """With template arguments and parameters."""
    grid: tuple[int, int, int] = (0, 0, 0)
    """Blocks in x, y, z; zeros where ncu did not say."""
    block: tuple[int, int, int] = (0, 0, 0)
    """Threads in x, y, z; zeros where ncu did not say."""
    ranges: tuple[str, ...] = ()
    """Names of all NVTX ranges around the launch: push/pop ranges outermost first, then start/end ranges."""
    metrics: dict[str, MetricValue] = {}
    """In ncu's base units (`ns`, `byte`, `%`); a metric without a value is not in here."""
    units: dict[str, str] = {}
    """ncu's unit of each metric, empty where it has none."""
    rules: tuple[Rule, ...] = ()
    """Results of ncu's own rules, in its order."""

    def matches(self, regex: str | None) -> bool:
        """Whether a regex is found in the function's name or in the demangled one; None is in all."""
        return regex is None or any(re.search(regex, name) for name in (self.name, self.demangled))

    def profile(self, extra: Iterable[str] = (), short: Collection[str] | None = None) -> KernelProfile:
        """The launch as a record.

        Args:
            extra: Raw ncu names to keep beside the catalogue's short ones, in ncu's base unit.
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
