"""Hold signals off, or end in order on a signal."""

from __future__ import annotations

import signal
import threading
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

ENDING = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
"""Ctrl-C, the first signal of a CI system, and the signal of a closed terminal, which Windows has not."""


class _SignalArrival(BaseException):
    """A signal has arrived that would have ended the process at once."""


@contextmanager
def signals_held_off() -> Iterator[None]:
    """Run the block so that only a kill interrupts it; raise other signals after it, however it ends."""
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
        with ExitStack() as stack:  # the handler of the first may raise
            for late in reversed(dict.fromkeys(arrived)):
                stack.callback(signal.raise_signal, late)


@contextmanager
def ended_in_order() -> Iterator[None]:
    """Run the block so that SIGTERM and SIGHUP leave it as Ctrl-C does, before they end the process."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    told: list[int] = []

    def leave(number: int, _frame: FrameType | None) -> None:
        told.append(number)
        if len(told) == 1:
            raise _SignalArrival

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
