"""Messages between the controller and its workers: orders, and what a worker tells of its tests.

A worker runs the tests; the controller writes and reports their results.
"""

from __future__ import annotations

import datetime
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from pytest_gpuperf.judge.result import TestResult
from pytest_gpuperf.records import Environment, Run
from pytest_gpuperf.session.load_balancing import spread
from pytest_gpuperf.session.progress import News

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


@dataclass(frozen=True)
class Orders:
    """The part of the run that a worker does."""

    run_id: str
    started_at: str
    """UTC, ISO 8601."""
    first_on_path: str
    isatty: bool
    """True if the controller writes to a terminal."""
    stacks: str
    """File for the stacks of a test that takes too long."""
    nodeids: list[str] | None = None
    """The tests in order, in a worker that replaces another one."""
    worker: int = 0
    """Place of the worker among all."""
    cards: Sequence[str] = ("",)
    """UUID of each worker's GPU; empty if it is not known."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """Durations of tests that are known."""
    homes: Mapping[str, str] = field(default_factory=dict)
    """UUID of the GPU with which the baseline of a test was measured."""

    def spread(self, nodeids: Sequence[str]) -> list[list[str]]:
        """Return the tests of each worker."""
        return spread(nodeids, self.seconds, self.homes, self.cards)

    @property
    def started(self) -> datetime.datetime:
        """Begin of the run."""
        return datetime.datetime.fromisoformat(self.started_at)


class Facts(msgspec.Struct, tag=True):
    """The run of a worker without its results."""

    environment: Environment
    lines: dict[str, int]
    """Line of each test in its file, by node id."""
    skipped: dict[str, str]
    """Why tests were skipped that nothing was recorded for."""
    replayed_from: Run | None
    """The recorded run, without its tests; None if this one measures."""


class Broken(msgspec.Struct, tag=True):
    """A CUDA error after which this process cannot use the GPU."""

    nodeid: str
    error: str


class Refused(msgspec.Struct, tag=True):
    """A mistake of the user that ends the run."""

    reason: str


class Deselected(msgspec.Struct, tag=True):
    """Number of tests that options have deselected."""

    count: int


class TerminalLine(msgspec.Struct, tag=True):
    """A call of a method of the terminal, about progress."""

    method: str
    text: list[str]
    options: dict[str, bool]


class Benchmarks(msgspec.Struct, tag=True):
    """The tables of pytest-benchmark."""

    text: str


Message: TypeAlias = Facts | News | TestResult | Broken | Refused | Deselected | TerminalLine | Benchmarks
# msgspec knows no paths.
_DECODER = msgspec.msgpack.Decoder(Message, dec_hook=lambda kind, text: kind(text))


def decode(data: bytes) -> Message:
    """Read a message."""
    message: Message = _DECODER.decode(data)
    return message


class Link:
    """The worker's end.

    Args:
        orders: The part of the run that this worker does.
        send: Sends bytes to the controller.
    """

    def __init__(self, orders: Orders, send: Callable[[bytes], None]) -> None:
        self.orders = orders
        self._send = send

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Link:
        """Take the orders from the input of a worker."""
        return cls(Orders(**given["orders"]), given["channel"].send)

    def tell(self, message: Message) -> None:
        """Tell the controller something."""
        self._send(msgspec.msgpack.encode(message, enc_hook=os.fspath))
