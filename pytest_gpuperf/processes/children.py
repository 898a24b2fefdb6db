"""Run child processes to their end, and end them early."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path


def run_child(
    command: Sequence[str], *, cwd: Path, env: dict[str, str], log: Path, poll: Callable[[], None]
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


def end_group(process: subprocess.Popen[bytes], grace_s: float = 5.0) -> None:
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
