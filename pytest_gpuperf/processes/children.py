"""Run child processes to their end, and end them early; ask tools for their versions."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

VERSION_S = 30
"""Seconds within which a tool has to answer `--version`."""


class Leader(Protocol):
    """A process that leads its own group: the part of `subprocess.Popen` that ends it."""

    pid: int

    @property
    def returncode(self) -> int | None:
        """Exit status, negative for a signal; None until the end was seen."""

    def poll(self) -> int | None:
        """Look for the end, and return the exit status."""

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end.

        Raises:
            subprocess.TimeoutExpired: The process still runs.
        """


def version_of(tool: str, pattern: str) -> str:
    """Ask a tool for its version.

    Args:
        tool: Path of the program.
        pattern: Regex with the version as its first group.

    Returns:
        The version; empty if the tool does not run, does not answer in time, or answers something else.
    """
    with suppress(OSError, subprocess.TimeoutExpired):
        answer = subprocess.run(  # noqa: S603
            [tool, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=VERSION_S,
        ).stdout
        found = re.search(pattern, answer)
        return found[1] if found else ""
    return ""


def run_child(
    command: Sequence[str],
    *,
    cwd: Path,
    env: dict[str, str],
    log: Path,
    poll: Callable[[], None],
    pass_fds: Sequence[int] = (),
) -> int:
    """Run a command to its end, calling `poll` several times a second.

    The command has its own process group, which ends with this process: Ctrl-C leaves none behind.

    Returns:
        Exit status.
    """
    with log.open("wb") as stream:
        process = subprocess.Popen(  # noqa: S603
            command,
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            pass_fds=pass_fds,
            start_new_session=True,
        )
        try:
            while process.poll() is None:
                poll()
                time.sleep(0.1)
        except BaseException:
            end_group(process)
            raise
        return process.returncode


def end_group(process: Leader, grace_s: float = 5.0) -> None:
    """End a process that leads its own group, together with its children.

    Args:
        process: Started with `start_new_session`.
        grace_s: Seconds between the request to end and the kill.
    """
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=grace_s)
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
