"""`gpuperf explain`: what bounds the kernels of a run or of a file of ncu's, and what changed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pytest_gpuperf.baseline.schema import suite_of
from pytest_gpuperf.cli.project import Project, echo, project_options
from pytest_gpuperf.counters.catalogue import source_names
from pytest_gpuperf.counters.chips import chip_of
from pytest_gpuperf.counters.csv_reader import read_csv
from pytest_gpuperf.counters.isolated_reader import read_report_isolated
from pytest_gpuperf.counters.ncu_report_reader import ncu_python_dirs
from pytest_gpuperf.diagnosis.changes import change_lines
from pytest_gpuperf.diagnosis.explain import diagnose_kernel, lines_of, shares_of_time
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.item_state import check_regex
from pytest_gpuperf.json_files import show_path
from pytest_gpuperf.report.rows import header_lines, show_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pytest_gpuperf.records import KernelProfile, Run, TestRecord, Timing

SHOWN_KERNELS = 20
"""Launches of one call or file that are explained, the longest ones."""

_REPORT = b"NVR\0"
_RUN = (b"{", b"\x1f\x8b")


@click.command()
@click.argument("source", metavar="[RUN|FILE]", required=False)
@click.argument("test", required=False)
@project_options
def explain(project: Project, source: str | None, test: str | None) -> None:
    """Say what bounds each kernel, why, and what to try next.

    RUN is the id of a run, the start of one, a run.json, or a folder that holds one; the newest run if left
    out. What moved since the baseline is shown too, the largest mover first. FILE is a report (.ncu-rep) or
    CSV that ncu wrote. TEST is a part of the names of tests, or a regex for the names of kernels.
    """
    if test is not None:
        check_regex(test, "asked for")
    path = None if source is None else Path(source)
    if path is not None and path.is_file() and not _begins(path, *_RUN):
        lines = _of_file(path, test)
    else:
        lines = _of_run(project, project.load(source), test)
    for line in lines:
        echo(line)


def _begins(path: Path, *heads: bytes) -> bool:
    with path.open("rb") as file:
        return file.read(4).startswith(heads)


def _of_run(project: Project, run: Run, wanted: str | None) -> list[str]:
    lines = header_lines(run.environment, None)
    if run.counters_unavailable:
        lines.append(f"no counters: {run.counters_unavailable}")
    found = [
        line
        for test in run.tests
        for label in test.measurements
        for line in _of_measurement(project, run, test, label, wanted)
    ]
    if not found:
        what = "of any test" if wanted is None else f"of a test or kernel {wanted!r}"
        raise GpuperfError(
            f"the run {run.id} has no counters {what}",
            expected="a part of a test's name, or a regex found in a kernel's",
        )
    return lines + found


def _of_measurement(
    project: Project, run: Run, test: TestRecord, label: str, wanted: str | None
) -> Iterator[str]:
    measurement = test.measurements[label]
    profile = measurement.profile
    if profile is None or not profile.kernels:
        return
    kernels = profile.kernels if wanted and wanted in test.nodeid else _chosen(profile.kernels, wanted)
    if not kernels:
        return
    yield ""
    yield test.nodeid if label == "main" else f"{test.nodeid} ({label})"
    chip = profile.chip or _chip(run.environment.gpu.compute_capability)
    timing = measurement.timing if len(profile.kernels) == 1 else None
    yield from (f"  {line}" for line in _of_kernels(kernels, chip, timing))
    baseline = project.store.load(run.environment.gpu.slug, suite_of(test.nodeid))
    known = baseline.tests.get(test.nodeid) if baseline else None
    if known is not None and label in known.measurements:
        tolerance = known.tolerance_pct or test.tolerance_pct or project.tolerance_pct
        changes = change_lines(measurement, known.measurements[label], tolerance)
        if changes:
            yield "  since the baseline:"
        yield from (f"    {line}" for line in changes)


def _chip(compute_capability: str) -> str:
    chip = chip_of(compute_capability)
    return chip.name if chip else ""


def _chosen(kernels: Iterable[KernelProfile], regex: str | None) -> list[KernelProfile]:
    return [
        kernel
        for kernel in kernels
        if regex is None or any(re.search(regex, name) for name in (kernel.name, kernel.demangled))
    ]


def _of_kernels(
    kernels: Sequence[KernelProfile], chip: str = "", timing: Timing | None = None
) -> Iterator[str]:
    shares = shares_of_time(kernels)
    longest = sorted(range(len(kernels)), key=lambda i: -shares[i])[:SHOWN_KERNELS]
    for i in sorted(longest):
        duration = kernels[i].metrics.get("duration_us")
        took = f", {show_time(duration)}" if isinstance(duration, float) else ""
        share = f", {100 * shares[i]:.0f} % of the time" if len(kernels) > 1 else ""
        yield f"{kernels[i].name}{took}{share}"
        lines = lines_of(diagnose_kernel(kernels[i], chip, timing))
        yield from (f"  {line}" for line in lines or ["nothing to say: too few counters were measured"])
    if len(kernels) > len(longest):
        yield f"and {len(kernels) - len(longest)} shorter launches; a regex chooses among them"


def _of_file(path: Path, regex: str | None) -> list[str]:
    if _begins(path, _REPORT):
        raw = read_report_isolated(path, source_names(), search=ncu_python_dirs(None))
    else:
        raw = read_csv(path.read_text(encoding="utf-8", errors="replace"))
    kernels = [kernel.profile() for kernel in raw]
    chosen = _chosen(kernels, regex)
    if not chosen:
        names = ", ".join(dict.fromkeys(kernel.name for kernel in kernels[:SHOWN_KERNELS]))
        raise GpuperfError(
            f"{show_path(path)} holds no kernel that {regex!r} finds; it holds {names}",
            expected="a regex found in the name of a kernel",
        )
    return list(_of_kernels(chosen))
