"""pytest-gpuperf: the performance of a GPU kernel as a test.

Importing the package is cheap; the names below are loaded when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gpuperf._version import __version__

if TYPE_CHECKING:
    from pytest_gpuperf.counters.combine import combine
    from pytest_gpuperf.counters.report_file import ReportKernel, read_report
    from pytest_gpuperf.errors import GpuperfError
    from pytest_gpuperf.facade import Gpuperf
    from pytest_gpuperf.records import (
        Correctness,
        Measurement,
        Profile,
        Run,
        StaticKernel,
        Timing,
        Trace,
        TracedKernel,
        WarmUp,
    )
    from pytest_gpuperf.static.occupancy import Occupancy, occupancy

__all__ = [
    "Correctness",
    "Gpuperf",
    "GpuperfError",
    "Measurement",
    "Occupancy",
    "Profile",
    "ReportKernel",
    "Run",
    "StaticKernel",
    "Timing",
    "Trace",
    "TracedKernel",
    "WarmUp",
    "__version__",
    "combine",
    "occupancy",
    "read_report",
]

_HOMES = {
    "Gpuperf": "facade",
    "GpuperfError": "errors",
    "Occupancy": "static.occupancy",
    "ReportKernel": "counters.report_file",
    "combine": "counters.combine",
    "occupancy": "static.occupancy",
    "read_report": "counters.report_file",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'records')}"), name)
