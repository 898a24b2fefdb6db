"""One run on many GPUs of many hosts, by a Dask cluster.

Commands: `gpuperf fleet run` and, on each host, `gpuperf fleet worker`.
A worker runs groups of tests with `worker_plugin`, a plugin of pytest; `results` merges what comes back.
Extra: `fleet` (distributed).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_gpuperf.registry import Registry


def register(registry: Registry) -> None:
    """Add the parts named above."""
    registry.commands["fleet"] = "pytest_gpuperf.features.fleet.command"
