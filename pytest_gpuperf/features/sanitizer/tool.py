"""Find compute-sanitizer, and the command line and environment of a program under it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.processes.children import version_of
from pytest_gpuperf.processes.cuda_toolkit import find_tool

if TYPE_CHECKING:
    from collections.abc import Mapping

NAME = "compute-sanitizer"
PADDING_BYTES = 4096
"""Bytes behind each allocation, so that a write past its end cannot land in the next one unseen."""
_ALLOCATOR_SETTINGS = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")


@dataclass(frozen=True)
class Sanitizer:
    """An installed compute-sanitizer."""

    path: Path
    version: str
    """Such as `2025.3.1.0`."""

    def command(self, tool: str, log: Path) -> list[str]:
        """Return the part of the command line before the program's own.

        Args:
            tool: `memcheck`, `racecheck`, `initcheck` or `synccheck`.
            log: File for the errors.
        """
        command = [
            str(self.path),
            "--tool", tool,
            # The default ends the CUDA context, and no later test could run.
            "--destroy-on-device-error", "kernel",
            # With the default of 100, the errors of one test would hide those of later tests.
            "--print-limit", "0",
            "--show-backtrace", "device",
            "--target-processes", "application-only",
            "--log-file", str(log).replace("%", "%%"),
        ]  # fmt: skip
        if tool == "memcheck":
            # Check kernels only: torch and Triton probe the driver with calls that fail.
            command += ["--report-api-errors", "no", "--padding", str(PADDING_BYTES)]
        elif tool == "racecheck":
            # The default summarises hazards, without a thread or an address.
            command += ["--racecheck-report", "hazard"]
        return command


def environment(environ: Mapping[str, str], tool: str) -> dict[str, str]:
    """Return the environment of a program under the tool.

    torch's allocator takes large blocks from the driver and divides them: an access from one tensor into the
    next, or to memory that another tensor has initialised, would look right. For the tools that check
    addresses, each tensor becomes an allocation of its own.
    """
    if tool not in ("memcheck", "initcheck"):
        return {**environ, "LC_ALL": "C"}
    kept = {name: value for name, value in environ.items() if name not in _ALLOCATOR_SETTINGS}
    return {**kept, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1", "LC_ALL": "C"}


def find_sanitizer() -> Sanitizer:
    """Return the compute-sanitizer on PATH, else that of a CUDA installation.

    Raises:
        GpuperfError: No compute-sanitizer was found, or it does not answer.
    """
    path = find_tool(NAME)
    if path is None:
        raise GpuperfError(
            f"{NAME} was found neither on PATH nor in a CUDA installation",
            expected="the tool of the CUDA toolkit, for --gpuperf-sanitize",
            next_step="install the toolkit, or set CUDA_HOME to it",
        )
    version = version_of(path, r"Version (\d+(?:\.\d+)+)")
    if not version:
        raise GpuperfError(f"{path} does not answer --version like {NAME}", expected=f"NVIDIA's {NAME}")
    return Sanitizer(Path(path), version)
