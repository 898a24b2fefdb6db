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
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path
    from typing import IO

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
        found = re.search(pattern, output_of([tool, "--version"], VERSION_S).decode(errors="replace"))
        return found[1] if found else ""
    return ""


def output_of(command: Sequence[str], seconds: float) -> bytes:
    """Run a program without input, and return its standard output, whatever its exit status.

    Raises:
        OSError: It cannot be started.
        subprocess.TimeoutExpired: It takes longer than these seconds.
    """
    quiet = subprocess.DEVNULL
    return subprocess.run(command, stdin=quiet, capture_output=True, check=False, timeout=seconds).stdout  # noqa: S603


def start(
    command: Sequence[str],
    log: IO[bytes],
    env: Mapping[str, str],
    cwd: str | Path | None = None,
    pass_fds: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Start a program without input, in a process group of its own; a file gets all that it prints."""
    return subprocess.Popen(  # noqa: S603
        command,
        cwd=cwd,
        env=env,
        pass_fds=pass_fds,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


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
        process = start(command, stream, env, cwd, pass_fds)
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
