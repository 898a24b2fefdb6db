"""A project with one kernel and one test, and the results of `--gpuperf-against`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from against_project import Project

if TYPE_CHECKING:
    from pathlib import Path

    from against_project import Compared
    from pytest_gpuperf.against.restart_series import Series
    from pytest_gpuperf.records import AgainstTiming


TEST = """
from kernels import kernel

def test_k(gpuperf):
    gpuperf.time(kernel)
"""
K = "test_k.py::test_k"


def kernel(time_us: float) -> str:
    return f"def kernel():\n    return {time_us}\n"


def ten_microseconds(root: Path) -> Project:
    """Make a project whose kernel takes 10 µs on main."""
    made = Project(root)
    made.commit({"kernels.py": kernel(10.0), "test_k.py": TEST})
    return made


def found(compared: Compared, nodeid: str = K, label: str = "main") -> Series:
    return compared.series[nodeid, label]


def record(compared: Compared, nodeid: str = K, label: str = "main") -> AgainstTiming:
    return found(compared, nodeid, label).record(compared.commit)


def reason(compared: Compared, nodeid: str = K, label: str = "main") -> str:
    result = found(compared, nodeid, label)
    assert result.reason
    return result.reason
