"""Messages between `gpuperf fleet run` and the workers of a fleet.

Both ends send msgpack bytes, not objects that Dask would pickle. A message from another version is refused.
"""

from __future__ import annotations

from typing import Literal, TypeVar

import msgspec

from pytest_gpuperf.judge.result import TestResult
from pytest_gpuperf.records import Run, Toolchain

Kind = TypeVar("Kind")
Ending = Literal["passed", "failed", "skipped", "lost", "unjudged"]
"""End of a test: pytest's, `lost` if its workers were lost, or `unjudged` if pytest ended before it."""


class Job(msgspec.Struct, frozen=True):
    """One execution of `gpuperf fleet run`, the same for all workers."""

    id: str
    folder: str
    """The project below the top of its repository."""
    baselines: str
    """Folder of the baselines, below the project."""
    commit: str
    arguments: tuple[str, ...]
    """Further arguments for pytest."""
    replay: bool
    """True if recorded runs are judged again."""


class WorkerState(msgspec.Struct, frozen=True):
    """The state of a worker."""

    name: str = ""
    toolchain: Toolchain = Toolchain()
    gpus: dict[str, int] = {}
    """Number of GPUs by model: its Dask resources."""
    refused: str = ""
    """The reason why the worker cannot take part; empty if it can."""


class Test(msgspec.Struct, frozen=True):
    """A test that pytest has collected."""

    __test__ = False  # pytest: not a test class

    nodeid: str
    gpus: int = 1


class EndOfTest(msgspec.Struct, frozen=True):
    """The end of one test."""

    ending: Ending
    seconds: float = 0.0
    message: str = ""
    """Reason of a failure or of a skip."""


class Answer(msgspec.Struct):
    """The results of one execution of pytest on a worker."""

    status: int = -1
    """Exit status of pytest; below 0 if a signal ended it."""
    collected: tuple[Test, ...] = ()
    outcomes: dict[str, EndOfTest] = {}
    """By node id."""
    run: Run | None = None
    """The run without its tests, in a replay the recorded one; None if no test measures."""
    results: tuple[TestResult, ...] = ()
    files: dict[str, bytes] = {}
    """Traces, by their names in the run."""
    output: str = ""
    """The last lines of pytest."""


def encode(message: msgspec.Struct) -> bytes:
    """Return a message as bytes."""
    return msgspec.msgpack.encode(message)


def decode(data: bytes, kind: type[Kind]) -> Kind:
    """Read a message.

    Raises:
        msgspec.MsgspecError: The bytes are of another version.
    """
    return msgspec.msgpack.decode(data, type=kind)
