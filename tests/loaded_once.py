"""Modules that a process can load only once, or that each run would load again.

pytester unloads the imports of a run in its own process.
"""

from __future__ import annotations

import gc
from importlib import import_module
from typing import TYPE_CHECKING

from _pytest import pytester

if TYPE_CHECKING:
    from collections.abc import Callable

MODULES = (
    "hypothesis",
    "scipy.optimize",
    "scipy.special",
    "scipy.stats",
    "torch",
    "torch._dynamo",
    "torch._inductor.runtime.autotune_cache",
    "pytest_gpuperf.measure.first_calls",
    "pytest_gpuperf.measure.verification.verifier",
    "pytest_gpuperf.plugin.hook_selection",
    "pytest_gpuperf.plugin.facade",
    "pytest_gpuperf.report.terminal_summary",
    "pytest_gpuperf.features.export.verdict_json",
    "pytest_gpuperf.session.live_runner",
    "pytest_gpuperf.session.replay_runner",
)


class _Snapshot(pytester.SysModulesSnapshot):
    """Keeps the modules of torch that a run imports: they are in tables that refuse a second entry."""

    def __init__(self, preserve: Callable[[str], bool] | None = None) -> None:
        def kept(name: str) -> bool:
            of_torch = name.partition(".")[0] in ("torch", "functorch")
            return of_torch or (preserve is not None and preserve(name))

        super().__init__(kept)


def load() -> None:
    """Import the modules before the first run, and keep the modules that runs import of torch."""
    for name in MODULES:
        import_module(name)
    pytester.SysModulesSnapshot = _Snapshot  # type: ignore[misc]
    gc.freeze()  # garbage collection at the end of each run takes half a second with torch's objects
