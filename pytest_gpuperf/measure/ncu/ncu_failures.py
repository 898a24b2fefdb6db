"""Explanations of ncu errors, with advice."""

from __future__ import annotations

import re
from typing import NamedTuple


class KnownFailure(NamedTuple):
    """A failure of ncu with a known cause."""

    pattern: str
    """Regex found in ncu's output."""
    cause: str
    advice: str


PERMISSION_ADVICE = (
    "load the driver with NVreg_RestrictProfilingToAdminUsers=0, give the container --cap-add=SYS_ADMIN, "
    "or run as root (docs/how-to/github.md)"
)
BUSY_ADVICE = "pause DCGM's profiling (dcgmi profile --pause) or stop the other profiler, and run again"

KNOWN_FAILURES = (
    KnownFailure(
        r"ERR_NVGPUCTRPERM",
        "the driver denies hardware counters to this user (ERR_NVGPUCTRPERM)",
        PERMISSION_ADVICE,
    ),
    KnownFailure(
        r"driver resource was unavailable",
        "another profiler holds the counters (DCGM, another ncu or a CUPTI client)",
        BUSY_ADVICE,
    ),
    KnownFailure(
        r"Failed to (open|create) lock file|InterprocessLockFailed",
        "ncu's lock file belongs to another user",
        "set TMPDIR to your own folder",
    ),
    KnownFailure(
        r"Unsupported GPU|[Cc]uda driver is not compatible",
        "this ncu does not support this driver or GPU",
        "install the ncu that belongs to the driver's CUDA version, and name it with gpuperf_ncu",
    ),
    KnownFailure(
        r"LibraryNotLoaded",
        "this sandbox gives no access to hardware counters",
        "run outside the sandbox; timing goes on without counters",
    ),
    KnownFailure(
        r"[Rr]egular expression|regex_error",
        "ncu cannot read a kernel regex",
        "write the kernels= pattern without constructs that only Python has",
    ),
)


def explain(output: str) -> str | None:
    """Find the cause and the advice for a failure in the output of ncu; None if it names no failure."""
    for failure in KNOWN_FAILURES:
        if re.search(failure.pattern, output):
            return f"{failure.cause}; {failure.advice}"
    # A failed test is the exit status of the application, and no failure of ncu.
    errors = re.findall(
        r"^==ERROR==(?! The application returned an error code)\s*(.+)$", output, re.MULTILINE
    )
    return f"ncu says: {errors[0].strip()}" if errors else None
