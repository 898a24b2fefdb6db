"""Find ncu, make its command line, and ask it for its metrics."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.processes.children import version_of
from pytest_gpuperf.processes.cuda_toolkit import find_tool

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

NO_NCU = "ncu was found neither on PATH nor in the CUDA installation"
CACHE_CONTROL = "all"
"""Caches are flushed before each pass, so that earlier kernels do not influence the counters."""
CLOCK_CONTROL = "none"
"""Clocks stay as they are: they belong to the machine, and locked clocks would hide throttling."""
NOT_PLAIN = re.compile(r"[\^$]|\(\?|\\[bBAZdDwWsS1-9]")
"""Parts of a regex that ncu reads differently, or that do not fit its one spelling of a kernel name."""


@dataclass(frozen=True)
class Ncu:
    """An installed Nsight Compute."""

    path: Path
    version: str
    """Version such as `2025.3.1.0`."""

    def command(self, report: Path, metrics: Iterable[str], regexes: Sequence[str | None]) -> list[str]:
        """Make the part of the command line before the program.

        Args:
            report: Path of the report to write.
            metrics: Raw names.
            regexes: Regex of each test; joined into one filter if every test has a plain one. Without a
                filter ncu profiles more kernels than needed; the reader of the report leaves them out.
        """
        command = [
            str(self.path),
            "--config-file", "off",
            "--clock-control", CLOCK_CONTROL,
            "--cache-control", CACHE_CONTROL,
            "--profile-from-start", "off",
            "--target-processes", "application-only",
            "--check-exit-code", "0",
            "--nvtx",
            "--metrics", ",".join(metrics),
            "--force-overwrite",
            "--export", str(report),
            "--log-file", str(report.with_name("ncu.log")),
        ]  # fmt: skip
        wanted = [regex for regex in regexes if regex and not NOT_PLAIN.search(regex)]
        if wanted and len(wanted) == len(regexes):
            joined = "|".join(f"({regex})" for regex in dict.fromkeys(wanted))
            # Demangled names hold the function's name, so a search in them misses nothing.
            command += ["--kernel-name-base", "demangled", "--kernel-name", f"regex:{joined}"]
        return command


def find_ncu(path: str = "") -> Ncu | None:
    """Find the ncu at `path`, on PATH or in the CUDA installation; None if there is none.

    Raises:
        GpuperfError: `path` is given and is not ncu.
    """
    if path:
        found = shutil.which(path)
        if found is None:
            raise GpuperfError(
                f"gpuperf_ncu names {path!r}, which cannot be run",
                expected="the path of Nsight Compute's ncu",
            )
    else:
        found = find_tool("ncu")
        if found is None:
            return None
    version = version_of(found, r"Version (\d+(?:\.\d+)+)")
    if not version:
        if not path:
            return None
        raise GpuperfError(f"{path!r} does not answer --version like ncu", expected="Nsight Compute's ncu")
    return Ncu(Path(found), version)
