"""Messages from a worker, which runs the tests, to the controller, which writes and reports their results."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from pytest_gpuperf.judge.result import TestResult
from pytest_gpuperf.records import Environment, Run
from pytest_gpuperf.session.news import News
from pytest_gpuperf.session.worker_orders import Orders

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


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
    """A line of the terminal, about progress."""

    method: str
    text: str = ""


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
