"""Read a `.ncu-rep` through NVIDIA's package `ncu_report`, which needs no GPU and no ncu."""

from __future__ import annotations

import importlib
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.ncu import ncu_rules
from pytest_gpuperf.measure.ncu.ncu import ncu_path
from pytest_gpuperf.measure.ncu.raw_kernel import RawKernel

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from pytest_gpuperf.measure.ncu.ncu_rules import Rule
    from pytest_gpuperf.records import MetricValue

NVIDIA_PACKAGES = Path("/opt/nvidia/nsight-compute")
"""Where the packages of NVIDIA's repositories install, a folder a version."""

_AXES = ("x", "y", "z")


def ncu_python_dirs(ncu: Path | None) -> tuple[Path, ...]:
    """Where an ncu installation keeps its own copy of `ncu_report`.

    Args:
        ncu: The ncu binary; None looks for one, and there need be none.

    Returns:
        The folders that exist, the nearest to the binary first; a CUDA toolkit's `bin/ncu` is a script
        that looks beside itself and in `/opt/nvidia`, so those are looked into too, the newest first.
    """
    if ncu is None:
        found = ncu_path()
        ncu = Path(found) if found else None
    dirs: list[Path] = []
    for parent in ncu.resolve().parents if ncu else ():
        toolkits = sorted(parent.glob("nsight-compute-*"), key=_version, reverse=True)
        dirs += [folder / "extras" / "python" for folder in (parent, *toolkits)]
    packages = sorted(NVIDIA_PACKAGES.glob("*"), key=_version, reverse=True)
    dirs += [folder / "extras" / "python" for folder in packages]
    return tuple(path for path in dirs if path.is_dir())


def _version(folder: Path) -> tuple[int, ...]:
    return tuple(int(part) for part in folder.name.rpartition("-")[2].split(".") if part.isdigit())


def read_report(
    path: Path,
    names: Collection[str] | None = None,
    *,
    rules: bool = False,
    search: Sequence[Path] = (),
) -> list[RawKernel]:
    """Read all kernels of a report, in launch order.

    A report that is damaged in the middle can end the process inside NVIDIA's library: read only reports
    of your own.

    Args:
        path: The `.ncu-rep` file.
        names: Raw metric names to read; None reads all, which are thousands after `--set full`.
        rules: Whether to read the results of ncu's rules, too.
        search: Folders to look for `ncu_report` in where the package is not installed, as
            `ncu_python_dirs` gives them.

    Raises:
        GpuperfError: There is no such file, no kernel in it, a kernel in it is damaged, or there is no
            `ncu_report` to read it with.
    """
    ncu_report = _import_ncu_report(path, search)
    if not path.is_file():
        raise GpuperfError(
            f"there is no file {path.name}",
            expected="a report written by `ncu --export`",
            next_step="check the path",
        )
    # A file that is no report loads without an error, as a report without ranges. Actions and metrics point
    # into the report and do not keep it alive (seen in 2025.3.1): the name has to hold it until all is read.
    report = ncu_report.load_report(str(path))
    results = list(report)
    actions = [action for result in results for action in result]
    # A launch that lies behind the end of a file cut short, or on broken bytes, is there without a name.
    broken = sum(not action.name() for action in actions)
    if broken:
        raise GpuperfError(
            f"{path.name} is damaged: {broken} of {len(actions)} launches cannot be read",
            expected="a complete report written by `ncu --export`",
            next_step="copy it again, or profile again",
        )
    kernels = [_read(action, names, _rules(action, ncu_report) if rules else ()) for action in actions]
    if not kernels:
        raise GpuperfError(
            f"{path.name} holds no kernel",
            expected="a complete report written by `ncu --export`",
            next_step="see what ncu printed while it was written",
        )
    return kernels


def _import_ncu_report(path: Path, search: Sequence[Path]) -> Any:
    for folder in (None, *search):
        if folder is not None:
            sys.path.insert(0, str(folder))
        try:
            return importlib.import_module("ncu_report")
        except ImportError:
            continue
        finally:
            if folder is not None:
                sys.path.remove(str(folder))
    raise GpuperfError(
        "the Python package ncu_report is not installed",
        expected="it, or the copy inside an installation of Nsight Compute",
        next_step="type `pip install ncu-report`, or make CSV of the report where ncu is: "
        f"`ncu --import {path.name} --page raw --csv`",
    )


def _read(action: Any, names: Collection[str] | None, rules: tuple[Rule, ...]) -> RawKernel:
    metrics: dict[str, MetricValue] = {}
    units: dict[str, str] = {}
    for name in action.metric_names() if names is None else names:
        metric = action.metric_by_name(name)
        value = _value(metric)
        if value is not None:
            metrics[name] = value
            units[name] = metric.unit()
    return RawKernel(
        name=action.name(),
        demangled=action.name(action.NameBase_DEMANGLED),
        grid=_extent(action, "grid"),
        block=_extent(action, "block"),
        ranges=tuple(_ranges(action)),
        metrics=metrics,
        units=units,
        rules=rules,
    )


def _rules(action: Any, ncu_report: Any) -> tuple[Rule, ...]:
    # Copies in older installations have no such method.
    results = getattr(action, "rule_results_as_dicts", list)
    return ncu_rules.from_report(results(), ncu_report)


def _value(metric: Any) -> MetricValue | None:
    if metric is None or not metric.has_value():
        return None
    value = metric.value()
    if isinstance(value, (int, float)):
        return float(value) if math.isfinite(value) else None
    return value or None


def _extent(action: Any, what: str) -> tuple[int, int, int]:
    values = (_value(action.metric_by_name(f"launch__{what}_dim_{axis}")) for axis in _AXES)
    x, y, z = (int(value or 0) for value in values)
    return x, y, z


def _ranges(action: Any) -> Iterable[str]:
    state = action.nvtx_state()
    if state is None:
        return
    domains = [state.domain_by_id(identifier) for identifier in state.domains()]
    for domain in domains:
        yield from domain.push_pop_ranges()
    for domain in domains:
        yield from domain.start_end_ranges()
