"""Changes of metrics in the units that people use."""

from __future__ import annotations

from pytest_gpuperf import metrics as catalogue
from pytest_gpuperf.records.change import Change, show_signed

_PREFIXES = ((1e9, "G"), (1e6, "M"), (1e3, "k"))
_COUNTS = frozenset({"byte", "inst", "sector", "request", "op", "cycle"})
_UNITS = {"byte": "B", "us": "µs", "%": "%", "GB/s": "GB/s", "TFLOP/s": "TFLOP/s", "MHz": "MHz"}
"""Units that a name does not say."""


def in_units(change: Change) -> str:
    """Return `dram_bytes 524 -> 1049 MB (+100.0 %)`: large numbers by their prefix, shares by points."""
    metric = catalogue.get(change.metric)
    unit = metric.unit if metric is not None else ""
    before, now = change.baseline, change.actual
    if isinstance(before, str) or isinstance(now, str):
        return str(change)
    least = min(filter(None, (abs(before), abs(now))), default=0.0)
    prefixes = (pair for pair in _PREFIXES if unit in _COUNTS and least >= pair[0])
    scale, prefix = next(prefixes, (1.0, ""))
    shown = Change(change.metric, before / scale, now / scale, change.change_pct, change.worse)
    values, _, relative = str(shown).partition(" (")
    text = f"{values} {prefix}{_UNITS.get(unit, '')}".rstrip()
    if unit == "%":
        # A stall of 0.01 % that grows to 1.6 % is no matter of 16,000 %.
        return f"{text} ({show_signed(now - before)} points)"
    return f"{text} ({relative}" if relative else text
