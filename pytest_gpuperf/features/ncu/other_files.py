"""Errors for files that are not from ncu, or in which ncu found nothing: each says what the file is."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.ncu.ncu_failures import explain

if TYPE_CHECKING:
    from pathlib import Path

EXPECTED = "a report (.ncu-rep) or CSV that ncu wrote"

_SYSTEMS = (
    "Nsight Systems, which has times and no counters",
    "profile the kernels with `ncu --export REPORT PROGRAM`",
)
_SYSTEMS_SUFFIXES = (".nsys-rep", ".qdrep", ".qdstrm")
_KINDS: tuple[tuple[re.Pattern[bytes], str, str], ...] = tuple(
    (re.compile(pattern), what, step)
    for pattern, what, step in (
        (rb"SQLite format 3\0", f"a database of {_SYSTEMS[0]}", _SYSTEMS[1]),
        (rb"(?i)\s*(?:<!doctype html|<html)", "a web page", "download the file itself, on GitHub with `Raw`"),
        (rb"version https://git-lfs", "a pointer of Git LFS and not the file", "`git lfs pull`"),
        (rb"PK\x03\x04|\xfd7zXZ|BZh|7z\xbc\xaf|\x28\xb5\x2f\xfd", "an archive", "unpack it"),
        (rb"\s*[{\[]\s*[\"{\[\]}]", "JSON", "name the file that ncu wrote"),
        (rb"(?s).*==\d+== NVPROF", "output of nvprof", _SYSTEMS[1]),
        (
            rb'"?(?:Time ?\(%\)|Total Time \(ns\)|Start \(ns\)|PID,TID,DevId)"?,',
            f"a table of {_SYSTEMS[0]}",
            _SYSTEMS[1],
        ),
    )
)
_CONSOLE = re.compile(
    r", Context \d+, Stream \d+\b|\bMetric Name +Metric Unit +M|\bSection: \S.*\n.{0,60}?-{3,} -{3,}"
)
"""Line of a launch, and heads of tables since and before ncu 2022, as ncu prints them on a terminal."""
_PROFILED = '==PROF== Profiling "'
_NO_KERNEL = re.compile(r"No kernels were profiled|^==PROF== (?:Connected|Disconnected)", re.MULTILINE)
_REPORT = re.compile(r"^\s*(?:> ?)*==PROF== Report: (.+?)\s*$", re.MULTILINE)
_ERROR = re.compile(r"^\s*(?:> ?)*==ERROR==\s*(.+?)\s*$", re.MULTILINE)
_BYTES = re.compile(rb"[\0-\x08]")


def is_console_text(text: str) -> bool:
    """Return True if a text has a launch or a table as ncu prints them on a terminal."""
    return _CONSOLE.search(text) is not None


def errors_in(text: str) -> list[str]:
    """List the errors that ncu reports in a text, each once."""
    return list(dict.fromkeys(_ERROR.findall(text)))


def not_from_ncu(path: Path, data: bytes, text: str) -> GpuperfError:
    """Return the error for a file without a launch.

    Args:
        path: The file.
        data: Its content.
        text: The same as text.
    """
    if path.name.endswith(_SYSTEMS_SUFFIXES):
        return _is(path, f"a report of {_SYSTEMS[0]}", _SYSTEMS[1])
    if not data.strip():
        return GpuperfError(
            f"{path.name} is empty", expected=EXPECTED, next_step="see the output of ncu from that time"
        )
    for pattern, what, step in _KINDS:
        if pattern.match(data):
            return _is(path, what, step)
    if path.name.removesuffix(".gz").endswith(".ncu-rep"):
        return GpuperfError(
            f"{path.name} is not an ncu report, or a damaged one: it does not begin like a report",
            expected="a complete report written by `ncu --export`",
            next_step="copy it again, or profile again",
        )
    if is_console_text(text):
        return _console_text(path)
    if cause := explain(text):
        return GpuperfError(f"{path.name} has no launch: {cause}", next_step="then profile again")
    if report := _REPORT.search(text):
        name = report[1].replace("\\", "/").rpartition("/")[2]
        return GpuperfError(
            f"{path.name} has no values: ncu wrote them to {name}",
            expected=EXPECTED,
            next_step=f"gpuperf ncu {name}",
        )
    if errors := errors_in(text):
        return GpuperfError(
            f"{path.name} has no launch: ncu says: {errors[0]}", next_step="then profile again"
        )
    if _PROFILED in text:
        return _console_text(path)
    if _NO_KERNEL.search(text):
        return GpuperfError(
            f"{path.name} has no launch: ncu profiled no kernel",
            expected="a program that launches kernels, and filters that let some through",
            next_step="profile again without --kernel-name, --launch-skip and --nvtx-include",
        )
    if _BYTES.search(data[:4096]):
        return _is(path, "a binary file, and not a report", "name the file that ncu wrote")
    return GpuperfError(
        f"{path.name} has no header of ncu CSV",
        expected=EXPECTED,
        next_step="print the report with `ncu --import REPORT --page raw --csv`",
    )


def _console_text(path: Path) -> GpuperfError:
    step = "print the report with `ncu --import FILE --page raw --csv`, or profile again with `ncu --csv`"
    return _is(path, "text that ncu printed for people", step)


def _is(path: Path, what: str, step: str) -> GpuperfError:
    return GpuperfError(f"{path.name} is {what}", expected=EXPECTED, next_step=step)
