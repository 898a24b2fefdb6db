"""Modules that a process can load only once, or that each run would load again.

pytester unloads the imports of a run in its own process.
"""

from __future__ import annotations

import gc
from importlib import import_module

MODULES = (
    "hypothesis",
    "scipy.optimize",
    "scipy.special",
    "scipy.stats",
    "torch",
    "torch._dynamo",
    "torch._inductor.runtime.autotune_cache",
    "pytest_gpuperf.measure.cupti.module_callbacks",
    "pytest_gpuperf.measure.identity.code_reader",
    "pytest_gpuperf.measure.identity.loaded_modules",
    "pytest_gpuperf.measure.verification.verify",
    "pytest_gpuperf.plugin.activation",
    "pytest_gpuperf.plugin.facade",
    "pytest_gpuperf.report.publish",
    "pytest_gpuperf.report.verdicts",
    "pytest_gpuperf.session.live",
    "pytest_gpuperf.session.replay",
)


def load() -> None:
    """Import the modules before the first run."""
    for name in MODULES:
        import_module(name)
    gc.freeze()  # garbage collection at the end of each run takes half a second with torch's objects
