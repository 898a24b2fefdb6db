"""Read a `.ncu-rep` through NVIDIA's package `ncu_report`, which needs neither a GPU nor ncu.

`ncu_report` 2025.3.1 was seen to crash in a process that has torch loaded, and damaged reports end any
process that reads them. So `read_report_isolated` reads in another process, which can neither disturb torch
nor end the run.
"""

from __future__ import annotations

import importlib
import math
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.features.ncu.file_kernel import FileKernel
from pytest_gpuperf.features.ncu.rule_results import rules_from_report
from pytest_gpuperf.processes.cuda_toolkit import find_tool, release
from pytest_gpuperf.processes.module_process import ask_apart, serve

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from pytest_gpuperf.features.ncu.rule_results import RuleResult
    from pytest_gpuperf.records import MetricValue

NVIDIA_PACKAGES = Path("/opt/nvidia/nsight-compute")
"""Folder of NVIDIA's distribution packages, with a folder for each version."""

_AXES = ("x", "y", "z")
_ATTRIBUTE = "device__attribute_"


def ncu_python_dirs(ncu: Path | None) -> tuple[Path, ...]:
    """List the folders in which an ncu installation keeps its own copy of `ncu_report`.

    Args:
        ncu: The ncu binary; None looks for one, and there need not be one.

    Returns:
        The folders that exist, the nearest to the binary first. `bin/ncu` of a CUDA toolkit is a script that
        looks next to itself and in `/opt/nvidia`, so these folders follow, the newest version first.
    """
    if ncu is None:
        found = find_tool("ncu")
        ncu = Path(found) if found else None
    dirs: list[Path] = []
    for parent in ncu.resolve().parents if ncu else ():
        toolkits = sorted(parent.glob("nsight-compute-*"), key=release, reverse=True)
        dirs += [folder / "extras" / "python" for folder in (parent, *toolkits)]
    packages = sorted(NVIDIA_PACKAGES.glob("*"), key=release, reverse=True)
    dirs += [folder / "extras" / "python" for folder in packages]
    return tuple(path for path in dirs if path.is_dir())


class _Request(msgspec.Struct, frozen=True):
    report: str
    names: list[str] | None
    search: list[str]


class _ReportAnswer(msgspec.Struct, frozen=True):
    kernels: list[FileKernel] = []
    error: str = ""


def read_report_isolated(
    path: Path, names: Sequence[str] | None, *, ncu: Path | None = None
) -> list[FileKernel]:
    """Read all kernels of a report in another process, with the arguments of `read_report`.

    Args:
        path: The file.
        names: Raw metric names; None for all.
        ncu: The ncu whose copy of `ncu_report` serves if there is no other; None looks for one.

    Raises:
        GpuperfError: As `read_report`, or the reading process crashed.
    """
    search = list(map(str, ncu_python_dirs(ncu)))
    request = _Request(str(path), None if names is None else list(names), search)
    done = ask_apart(__name__, msgspec.json.encode(request))
    answer = None
    # A library may also end its process with success, or give bytes that are not text for a damaged name.
    with suppress(msgspec.DecodeError, UnicodeDecodeError):
        answer = msgspec.json.decode(done.stdout, type=_ReportAnswer)
    if done.returncode != 0 or answer is None:
        raise GpuperfError(
            f"NVIDIA's ncu_report failed to read {path.name} (exit status {done.returncode})",
            expected="a complete report, and an ncu_report at least as new as the ncu that wrote it",
            next_step="try a newer one: `pip install -U ncu-report`",
        )
    if answer.error:
        raise GpuperfError(answer.error)
    return answer.kernels


def main() -> None:
    """In the other process: answer the request on standard input."""
    serve(_answer)


def _answer(question: bytes) -> bytes:
    request = msgspec.json.decode(question, type=_Request)
    try:
        answer = _ReportAnswer(
            read_report(Path(request.report), request.names, search=list(map(Path, request.search)))
        )
    except GpuperfError as error:
        answer = _ReportAnswer(error=str(error))
    return msgspec.json.encode(answer)


def read_report(
    path: Path,
    names: Collection[str] | None = None,
    *,
    search: Sequence[Path] = (),
) -> list[FileKernel]:
    """Read all kernels of a report in this process, in launch order.

    A report that is damaged in the middle can end the process inside NVIDIA's library: read only your own
    reports.

    Args:
        path: The `.ncu-rep` file.
        names: Raw metric names to read; None reads all, which are thousands after `--set full`.
        search: Folders to look for `ncu_report` in if the package is not installed, from
            [`ncu_python_dirs`][pytest_gpuperf.features.ncu.report_reader.ncu_python_dirs].

    Raises:
        GpuperfError: The file does not exist, it has no kernel, a kernel in it is damaged, or there is no
            `ncu_report` to read it with.
    """
    ncu_report = _import_ncu_report(path, search)
    if not path.is_file():
        raise GpuperfError(
            f"there is no file {path.name}",
            expected="a report written by `ncu --export`",
            next_step="check the path",
        )
    # A file that is not a report loads without an error, as a report without ranges. Actions and metrics
    # point into the report and do not keep it alive (seen in 2025.3.1), so the name holds it until all is
    # read.
    report = ncu_report.load_report(str(path))
    results = list(report)
    actions = [action for result in results for action in result]
    # A launch behind the end of a truncated file, or on broken bytes, has no name.
    broken = sum(not action.name() for action in actions)
    if broken:
        raise GpuperfError(
            f"{path.name} is damaged: {broken} of {len(actions)} launches cannot be read",
            expected="a complete report written by `ncu --export`",
            next_step="copy it again, or profile again",
        )
    # A derived metric has the unit that was asked first among those of its kind (`thread` for `inst`, seen in
    # 2026.3.1), unless the others were asked before.
    for name in actions[0].metric_names() if actions else ():
        if not name.startswith("derived__"):
            actions[0].metric_by_name(name).unit()
    kernels = [_read(action, names, _rules(action, ncu_report)) for action in actions]
    if not kernels:
        raise GpuperfError(
            f"{path.name} holds no kernel",
            expected="a complete report written by `ncu --export`",
            next_step="see the output of ncu from that time",
        )
    return kernels


def _import_ncu_report(path: Path, search: Sequence[Path]) -> Any:
    for folder in (None, *search):
        if folder is not None:
            sys.path.insert(0, str(folder))
        try:
            return importlib.import_module("ncu_report")
        except ImportError:
            pass
        finally:
            if folder is not None:
                sys.path.remove(str(folder))
    raise GpuperfError(
        "the Python package ncu_report is not installed",
        expected="the package, or the copy inside an installation of Nsight Compute",
        next_step="type `pip install ncu-report`, or convert the report to CSV on a machine with ncu: "
        f"`ncu --import {path.name} --page raw --csv`",
    )


def _read(action: Any, names: Collection[str] | None, rules: tuple[RuleResult, ...]) -> FileKernel:
    metrics: dict[str, MetricValue] = {}
    units: dict[str, str] = {}
    not_finite = 0
    for name in dict.fromkeys(action.metric_names() if names is None else names):
        metric = action.metric_by_name(name)
        value = _value(metric)
        if value is not None:
            metrics[name] = value
            units[name] = metric.unit()
        elif metric is not None and metric.has_value() and isinstance(metric.value(), float):
            not_finite += 1
    gpu, index, *capability = (
        _value(action.metric_by_name(_ATTRIBUTE + name))
        for name in (
            *("display_name", "device_index"),
            *("compute_capability_major", "compute_capability_minor"),
        )
    )
    return FileKernel(
        name=action.name(),
        demangled=action.name(action.NameBase_DEMANGLED),
        grid=_extent(action, "grid"),
        block=_extent(action, "block"),
        ranges=tuple(_ranges(action)),
        metrics=metrics,
        units=units,
        rules=rules,
        gpu=gpu if isinstance(gpu, str) else "",
        compute_capability=".".join(f"{part:.0f}" for part in capability if isinstance(part, float)),
        device=int(index) if isinstance(index, float) else None,
        not_finite=not_finite,
    )


def _rules(action: Any, ncu_report: Any) -> tuple[RuleResult, ...]:
    # Copies in older installations lack this method.
    results = getattr(action, "rule_results_as_dicts", list)
    return rules_from_report(results(), ncu_report)


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
