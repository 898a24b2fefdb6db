"""Messages from a worker, which runs the tests, to the controller, which writes and reports their results."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from pytest_gpuperf.judge.result import Finding, Status, TestResult, TestVerdict
from pytest_gpuperf.judge.screen import TimeComparison
from pytest_gpuperf.records import Environment, TestRecord
from pytest_gpuperf.records.passes import SelectedTest
from pytest_gpuperf.session.orders import Orders

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class Facts(msgspec.Struct, tag=True):
    """The state of the worker's run, except its results."""

    environment: Environment
    counters_unavailable: str
    why_no_counters: str
    notices: list[str]
    problems: list[str]
    lines: dict[str, int]
    replays: bool
    skipped: dict[str, str]
    """Why tests were skipped that nothing was recorded for."""


class Judged(msgspec.Struct, tag=True):
    """The result of a test."""

    record: TestRecord
    status: Status
    findings: tuple[Finding, ...]
    times: dict[str, TimeComparison]
    strict: bool
    replayed: bool
    unread: SelectedTest | None = None
    """What ncu has to read after all tests; None if that is nothing."""

    @classmethod
    def of(cls, result: TestResult, unread: SelectedTest | None = None) -> Judged:
        """Take a result apart."""
        verdict = result.verdict
        return cls(
            result.record,
            verdict.status,
            verdict.findings,
            verdict.times,
            verdict.strict,
            result.replayed,
            unread,
        )

    @property
    def result(self) -> TestResult:
        """The result again."""
        verdict = TestVerdict(self.status, self.findings, self.times, strict=self.strict)
        return TestResult(self.record, verdict, replayed=self.replayed)


class Broken(msgspec.Struct, tag=True):
    """A CUDA error after which this process cannot use the GPU."""

    nodeid: str
    error: str


class Refused(msgspec.Struct, tag=True):
    """A mistake of the user that ends the run."""

    reason: str


class OwnError(msgspec.Struct, tag=True):
    """An unexpected error of this plugin."""

    hook: str
    line: str


class Deselected(msgspec.Struct, tag=True):
    """Number of tests that options have deselected."""

    count: int


class Printed(msgspec.Struct, tag=True):
    """A line of the terminal, about progress."""

    method: str
    text: str = ""


class Benchmarks(msgspec.Struct, tag=True):
    """The tables of pytest-benchmark."""

    text: str


Message: TypeAlias = Facts | Judged | Broken | Refused | OwnError | Deselected | Printed | Benchmarks
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
