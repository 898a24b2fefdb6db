"""Causes of compute-sanitizer's own failures, with advice."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

KNOWN_FAILURES = (
    (
        r"[Dd]evice not supported|not supported on this",
        "compute-sanitizer cannot watch this GPU, as in a sandbox that hides the driver",
        "run on the host or in an ordinary container",
    ),
    (
        r"[Uu]nable to find injection|injection librar",
        "this installation of compute-sanitizer is incomplete",
        "reinstall the CUDA toolkit, or set CUDA_HOME to another one",
    ),
    (
        r"driver.*(?:insufficient|too old|not compatible|unsupported|mismatch)",
        "this compute-sanitizer does not fit this driver",
        "set CUDA_HOME to the toolkit of the driver's CUDA version",
    ),
    (
        r"[Pp]ermission|not permitted|debugg(?:er|ing) (?:is|interface)",
        "the system denies this user the permissions that compute-sanitizer needs",
        "run as a user who may debug on the GPU, or give the container --cap-add=SYS_PTRACE",
    ),
    (
        r"[Nn]o attachable process|timed[- ]out|[Tt]imeout",
        "compute-sanitizer could not connect to the program that it started",
        "check if the machine is overloaded, and run again",
    ),
)
"""Regex found in the tool's messages, cause, advice."""

_WORDS = 2


def explain(words: Sequence[str]) -> str:
    """Return cause and advice for a failure, else the tool's last messages; empty if there are none."""
    for pattern, cause, advice in KNOWN_FAILURES:
        if any(re.search(pattern, word) for word in words):
            return f"{cause}; {advice}"
    return f"compute-sanitizer says: {' '.join(words[-_WORDS:])}" if words else ""
