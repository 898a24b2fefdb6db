"""Detection of a file's kind from its first bytes."""

from __future__ import annotations

import codecs
import re
import stat
from typing import TYPE_CHECKING, Literal, TypeAlias

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.records.files import HEAD_BYTES, unpacked

if TYPE_CHECKING:
    from pathlib import Path

Kind: TypeAlias = Literal["run", "trace", "json", "other"]
"""A run file, a Chrome trace of torch.profiler, other JSON, or another file."""

NCU_HEAD_BYTES = 1 << 20
"""Number of bytes within which ncu names itself, after the lines that the profiled program has printed."""
# ncu prints a process as `[828] app@127.0.0.1`.
_JSON = re.compile(rb"\s*(?:\{|\[(?!\d+\] \S+@))")
_OF_NCU = re.compile(
    rb"==(?:PROF|ERROR|WARNING)==|^\s*Section: |\"?Kernel Name\"?,|\bMetric Name\b|Context \d+, Stream \d+",
    re.MULTILINE,
)


def type_of(path: Path) -> Literal["file", "folder", "other", ""]:
    """Tell files from folders; empty if nothing has this name, or nothing can, such as 5,000 letters."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return ""
    return "file" if stat.S_ISREG(mode) else "folder" if stat.S_ISDIR(mode) else "other"


def kind_of(path: Path) -> Kind:
    """Detect the kind of a file, gzipped or not; `other` if it cannot be read, or is a pipe or a device."""
    if type_of(path) != "file":
        return "other"
    try:
        return kind_of_content(next(unpacked(path, ""), b""))
    except GpuperfError:
        return "other"


def kind_of_content(content: bytes) -> Kind:
    """Detect the kind of a file from its content, or from the first `HEAD_BYTES` of it."""
    head = content[:HEAD_BYTES].removeprefix(codecs.BOM_UTF8).lstrip()
    if not _JSON.match(head):
        return "other"
    if b'"started_at"' in head:
        return "run"
    return "trace" if b'"traceEvents"' in head else "json"


def refuse_ncu(content: bytes, shown: str, expected: str) -> None:
    """Refuse a report, a CSV or the console text of ncu, and name the command that reads them.

    Raises:
        GpuperfError: It is one of them.
    """
    head = content[:NCU_HEAD_BYTES]
    if head.startswith(b"NVR\0") or (not _JSON.match(head) and _OF_NCU.search(head)):
        raise GpuperfError(
            f"{shown} is from Nsight Compute (ncu)", expected=expected, next_step=f"gpuperf ncu {shown}"
        )


def refuse_trace(kind: Kind, shown: str, expected: str) -> None:
    """Refuse a trace, and name the command that reads traces.

    Raises:
        GpuperfError: It is a trace.
    """
    if kind == "trace":
        raise GpuperfError(
            f"{shown} is a trace of torch.profiler", expected=expected, next_step=f"gpuperf trace {shown}"
        )
