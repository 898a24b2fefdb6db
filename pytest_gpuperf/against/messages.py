"""What a session and its two workers tell each other: a plan to begin with, then messages over a socket.

A worker does nothing of its own accord: it says where it has come to, and waits. So only one of the two has
work on the GPU at any time, and neither compiles, autotunes or warms up while the other is measured.
"""

from __future__ import annotations

import os
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from pytest_gpuperf.records import TimingMode

if TYPE_CHECKING:
    from pathlib import Path


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker has to know; `start.py` reads `checkout`, `tree` and `first` by these names."""

    channel: int
    """Descriptor of its end of the socket."""
    checkout: str
    """Top folder of the session's checkout."""
    tree: str
    """Top folder of the code that this worker runs."""
    other: str
    """Top folder of the code that the other one runs."""
    first: str
    """The folder that Python has put first on the session's path where it is in the checkout, else empty."""
    files: list[str]
    """Of the tests, in its tree; those that exist are collected."""
    nodeids: list[str]
    """The tests, in the session's order."""
    settled: dict[str, list[str]]
    """Labels, by test, that need no more of their time taken."""
    seed: int
    """Of the random numbers before each test: both sides of a restart work on the same data."""

    @classmethod
    def read(cls, path: Path) -> Plan:
        """In the worker: its plan."""
        return msgspec.json.decode(path.read_bytes(), type=cls)


class Compare(msgspec.Struct, tag=True, frozen=True):
    """To a worker: the tests that both sides have, in order."""

    nodeids: list[str]


class Begin(msgspec.Struct, tag=True, frozen=True):
    """To a worker: it is its turn to run the next test, up to a call of `time` or to its end."""


class RunBlock(msgspec.Struct, tag=True, frozen=True):
    """To a worker that is ready: time one block."""


class GoOn(msgspec.Struct, tag=True, frozen=True):
    """To a worker that is ready: return from `time`, and run to the next such call or the test's end."""


class Collected(msgspec.Struct, tag=True, frozen=True):
    """From a worker: it has collected, and waits for `Compare`."""

    nodeids: list[str]
    broken: dict[str, str]
    """Why a file or class could not be collected, by its node id."""
    misplaced: str = ""
    """Why what it has imported is not the code of its tree; empty where it is."""


class Started(msgspec.Struct, tag=True, frozen=True):
    """From a worker, after `Compare`: nothing has kept it from running tests, and it waits for `Begin`."""


class Ready(msgspec.Struct, tag=True, frozen=True):
    """From a worker: a call is compiled and warm, and waits to be timed."""

    label: str
    mode: TimingMode


class Timed(msgspec.Struct, tag=True, frozen=True):
    """From a worker: one block."""

    time_us: float
    """Microseconds a call."""
    sm_clock_mhz: float
    """Mean SM clock, in MHz; 0 where unknown."""


class Ended(msgspec.Struct, tag=True, frozen=True):
    """From a worker: the test has ended."""

    failure: str = ""
    """How its set-up, call or teardown ended early; empty where it ran to its end."""
    misplaced: str = ""
    """As in `Collected`, where the test has imported it."""
    shared: list[str] = []
    """Modules of the checkout that both sides have imported from there, as git does not know them."""


Command: TypeAlias = Compare | Begin | RunBlock | GoOn
Answer: TypeAlias = Collected | Started | Ready | Timed | Ended

_COMMANDS: msgspec.json.Decoder[Command] = msgspec.json.Decoder(Compare | Begin | RunBlock | GoOn)
_ANSWERS: msgspec.json.Decoder[Answer] = msgspec.json.Decoder(Collected | Started | Ready | Timed | Ended)


class SessionEnd:
    """The session's end of a socket.

    Raises:
        OSError, EOFError: Its methods, where the worker has gone.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def tell(self, command: Command) -> None:
        """Give a command."""
        self._connection.send_bytes(msgspec.json.encode(command))

    def has_answer(self, wait_s: float) -> bool:
        """Whether the worker says something, or has gone, within some seconds."""
        return self._connection.poll(wait_s)

    def answer(self) -> Answer:
        """What it says."""
        return _ANSWERS.decode(self._connection.recv_bytes())

    def close(self) -> None:
        """Let the worker know that nothing more will come."""
        self._connection.close()


class WorkerEnd:
    """The worker's end of a socket.

    Raises:
        OSError, EOFError: Its methods, where the session has gone.
    """

    def __init__(self, descriptor: int) -> None:
        # Programs that a test starts must not keep it open.
        os.set_inheritable(descriptor, False)
        self._connection = Connection(descriptor)

    def tell(self, answer: Answer) -> None:
        """Say something."""
        self._connection.send_bytes(msgspec.json.encode(answer))

    def command(self) -> Command:
        """Wait for the next command."""
        return _COMMANDS.decode(self._connection.recv_bytes())
