"""Modules that a process can load only once: pytester unloads what a run in its own process has imported."""

from __future__ import annotations

import gc
from importlib import import_module

MODULES = (
    "hypothesis",
    "scipy.optimize",
    "scipy.special",
    "scipy.stats",
    "torch",
    "pytest_gpuperf.report.publish",
    "pytest_gpuperf.session.live",
    "pytest_gpuperf.session.replay",
)


def load() -> None:
    """Import the modules before the first run."""
    for name in MODULES:
        import_module(name)
    gc.freeze()  # pytest collects garbage at the end of each run: half a second among the objects of torch
