"""What is left in order when this process, or one that it started, is told to end."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Ctrl-C, what a CI system sends first, and a terminal that is closed."""


class _Told(BaseException):
    """A signal has arrived that would have ended the process at once."""


@contextmanager
def signals_held_off() -> Iterator[None]:
    """Let nothing but a kill interrupt the block; what arrived meanwhile counts after it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    arrived: list[int] = []

    def remember(number: int, _frame: FrameType | None) -> None:
        arrived.append(number)

    before = {
        number: signal.signal(number, remember) for number in ENDING if signal.getsignal(number) is not None
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    for late in dict.fromkeys(arrived):
        signal.raise_signal(late)


@contextmanager
def ended_in_order() -> Iterator[None]:
    """Have SIGTERM and SIGHUP leave the block as Ctrl-C does, before they end the process."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    told: list[int] = []

    def leave(number: int, _frame: FrameType | None) -> None:
        told.append(number)
        if len(told) == 1:
            raise _Told

    ours = [number for number in ENDING if signal.getsignal(number) is signal.SIG_DFL]
    for number in ours:
        signal.signal(number, leave)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)
        if told:
            signal.raise_signal(told[0])


def end_group(process: subprocess.Popen[bytes], grace_s: float = 5.0) -> None:
    """End a process that leads a group of its own, and its children with it.

    Args:
        process: Started with `start_new_session`.
        grace_s: Seconds between the request and the kill.
    """
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=grace_s)
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
