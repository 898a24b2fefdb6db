"""Sets of metrics to ask ncu for together, by purpose. A metric names its presets in its row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.metrics import METRICS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pytest_gpuperf.metrics.metric import Preset

DEFAULT = "default"

PURPOSES: Mapping[Preset, str] = {
    "default": "speed of light, pipes, occupancy, stalls, hit rates, spills: the input of a diagnosis",
    "sol": "distance from the limits of the GPU, by unit",
    "occupancy": "resident and eligible warps, and the limits on their number",
    "launch": "registers, shared memory, grid and limits, with the time: nothing is counted",
    "stalls": "reasons why warps wait",
    "memory": "bytes and hits by level, coalescing, bank conflicts, spills, TMA",
    "tensor": "use of the tensor cores, and their operations by type",
    "roofline": "arithmetic operations by type, bytes of DRAM, L2 and L1, and their ceilings",
    "one-pass": "bytes, tensor cores, instructions and occupancy, without replaying the kernel",
}
"""Purpose of each preset, in a line."""

PRESETS: Mapping[str, tuple[str, ...]] = {
    preset: tuple(name for name, metric in METRICS.items() if preset in metric.presets) for preset in PURPOSES
}
"""Short names of metrics by preset. All presets hold `duration_us`, the last resort for weighting a mean."""


def check_presets(names: Iterable[str], where: str) -> tuple[str, ...]:
    """Check the names of presets that a user gives, and return each once.

    Args:
        names: The names as given.
        where: Place of the names, for the message.

    Raises:
        GpuperfError: A name is unknown, or there is none.
    """
    found = tuple(dict.fromkeys(name.strip() for name in names if name.strip()))
    unknown = [name for name in found if name not in PRESETS]
    if unknown or not found:
        raise GpuperfError(
            f"there is no preset {unknown[0]!r} {where}" if unknown else f"no preset is named {where}",
            expected=f"one or more of {', '.join(PRESETS)}",
        )
    return found


def metrics_of(names: Iterable[str]) -> tuple[str, ...]:
    """List the short names of the metrics of presets, each once; unknown presets have none."""
    return tuple(dict.fromkeys(metric for name in names for metric in PRESETS.get(name, ())))
