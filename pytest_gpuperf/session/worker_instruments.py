"""Instruments of a worker that is timed in turn with another: only `time` does its work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from pytest_gpuperf.against.messages import Ready, RunBlock, Timed
from pytest_gpuperf.session.child_instruments import ChildInstruments

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping
    from typing import Any

    from pytest_gpuperf.against.messages import Answer, Command
    from pytest_gpuperf.records import Timing, TimingMode, WarmUp
    from pytest_gpuperf.records.call import Call


class Block(Protocol):
    """One block."""

    @property
    def time_us(self) -> float:
        """Microseconds a call."""

    @property
    def sm_clock_mhz(self) -> float:
        """Mean SM clock, in MHz; 0 where unknown."""


class Prepared(Protocol):
    """A callable, compiled and captured."""

    @property
    def mode(self) -> TimingMode:
        """How it is timed."""

    def warm_up(self) -> WarmUp:
        """Run it until its time is steady."""

    def block(self) -> Block:
        """Time one block."""


class Preparer(Protocol):
    """What makes a callable ready to be timed."""

    def prepare(self, fn: Callable[[], Any], mode: str) -> Prepared:
        """Compile and capture it."""


class Session(Protocol):
    """The session's end of the conversation, as a call sees it."""

    def tell(self, answer: Answer) -> None:
        """Say something to it."""

    def command(self) -> Command:
        """Wait for what it wants next."""


class WorkerInstruments(ChildInstruments):
    """Serves blocks of each call to the session, for as long as it wants some.

    Args:
        session: Says what to do.
        timer: Makes calls ready to be timed.
        settled: Labels, by test, of which no time is wanted.
    """

    def __init__(self, session: Session, timer: Preparer, settled: Mapping[str, Container[str]]) -> None:
        self._session = session
        self._timer = timer
        self._settled = settled

    def time(self, call: Call, *, mode: str, bytes: int, flops: int) -> Timing:
        """Blocks for the session, and a time that agrees with every bound."""
        if call.label not in self._settled.get(call.nodeid, ()):
            prepared = self._timer.prepare(call, mode)
            prepared.warm_up()
            self._session.tell(Ready(call.label, prepared.mode))
            while isinstance(self._session.command(), RunBlock):
                block = prepared.block()
                self._session.tell(Timed(block.time_us, block.sm_clock_mhz))
        return super().time(call, mode=mode, bytes=bytes, flops=flops)
