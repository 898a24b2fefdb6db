"""pytest-gpuperf: the performance of a GPU kernel as a test.

Importing the package is cheap: the names below are loaded at their first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gpuperf._version import __version__

if TYPE_CHECKING:
    from pytest_gpuperf.errors import GpuperfError
    from pytest_gpuperf.features.compare.break_even import BreakEven, break_even
    from pytest_gpuperf.features.export.data_frame import to_frame
    from pytest_gpuperf.features.fuzz.case import FuzzCase
    from pytest_gpuperf.features.ncu.report_file import ReportKernel, read_report
    from pytest_gpuperf.features.ranks.facade import GpuperfRanks
    from pytest_gpuperf.measure.device.occupancy import Occupancy, occupancy
    from pytest_gpuperf.metrics.combination import combine
    from pytest_gpuperf.plugin.facade import Gpuperf
    from pytest_gpuperf.records import (
        Accuracy,
        Correctness,
        Fuzzing,
        Measurement,
        Profile,
        Run,
        StaticKernel,
        Timing,
        Trace,
        TracedKernel,
        WarmUp,
    )

__all__ = [
    "Accuracy",
    "BreakEven",
    "Correctness",
    "FuzzCase",
    "Fuzzing",
    "Gpuperf",
    "GpuperfError",
    "GpuperfRanks",
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
    "break_even",
    "combine",
    "occupancy",
    "read_report",
    "to_frame",
]

_HOMES = {
    "Gpuperf": "plugin.facade",
    "GpuperfError": "errors",
    "Occupancy": "measure.device.occupancy",
    "combine": "metrics.combination",
    "occupancy": "measure.device.occupancy",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    from pytest_gpuperf.registry import registry

    home = registry().names.get(name) or f"{__name__}.{_HOMES.get(name, 'records')}"
    return getattr(import_module(home), name)
