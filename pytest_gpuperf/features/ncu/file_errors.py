"""Errors for files that are not from ncu, or in which ncu found nothing."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.ncu.ncu_failures import explain

if TYPE_CHECKING:
    from pathlib import Path

EXPECTED = "a report (.ncu-rep) or CSV that ncu wrote"

_CONSOLE = re.compile(
    r", Context \d+, Stream \d+\b|\bMetric Name +Metric Unit +M|\bSection: \S.*\n.{0,60}?-{3,} -{3,}"
)
"""Line of a launch, and heads of tables since and before ncu 2022, as ncu prints them on a terminal."""
_PROFILED = '==PROF== Profiling "'
_NO_KERNEL = re.compile(r"No kernels were profiled|^==PROF== (?:Connected|Disconnected)", re.MULTILINE)
_REPORT = re.compile(r"^\s*(?:> ?)*==PROF== Report: (.+?)\s*$", re.MULTILINE)
_ERROR = re.compile(r"^\s*(?:> ?)*==ERROR==\s*(.+?)\s*$", re.MULTILINE)
_CONSOLE_TEXT = (
    "is text that ncu printed for people",
    "print the report with `ncu --import FILE --page raw --csv`, or profile again with `ncu --csv`",
)


def is_console_text(text: str) -> bool:
    """Return True if a text has a launch or a table as ncu prints them on a terminal."""
    return _CONSOLE.search(text) is not None


def errors_in(text: str) -> list[str]:
    """List the errors that ncu reports in a text, each once."""
    return list(dict.fromkeys(_ERROR.findall(text)))


def not_from_ncu(path: Path, text: str) -> GpuperfError:
    """Return the error for a file without a launch.

    Args:
        path: The file.
        text: Its content as text.
    """
    why, step = _why_not(path, text)
    return GpuperfError(f"{path.name} {why}", expected=EXPECTED, next_step=step)


def _why_not(path: Path, text: str) -> tuple[str, str]:
    """Return why a file has no launch, and what to do."""
    if path.name.removesuffix(".gz").endswith(".ncu-rep"):
        return "is damaged, or no report: it does not begin like one", "copy it again, or profile again"
    if is_console_text(text):
        return _CONSOLE_TEXT
    if cause := explain(text):
        return f"has no launch: {cause}", "then profile again"
    if report := _REPORT.search(text):
        name = report[1].replace("\\", "/").rpartition("/")[2]
        return f"has no values: ncu wrote them to {name}", f"gpuperf ncu {name}"
    if errors := errors_in(text):
        return f"has no launch: ncu says: {errors[0]}", "then profile again"
    if _PROFILED in text:
        return _CONSOLE_TEXT
    if _NO_KERNEL.search(text):
        step = "profile again without --kernel-name, --launch-skip and --nvtx-include"
        return "has no launch: ncu profiled no kernel", step
    return "has no header of ncu CSV", "print the report with `ncu --import REPORT --page raw --csv`"
