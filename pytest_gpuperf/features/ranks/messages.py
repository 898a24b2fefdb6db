"""Messages between a session and its ranks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_gpuperf.records import Conditions
    from pytest_gpuperf.records.call import Reference
    from pytest_gpuperf.records.ranks import RankTime


@dataclass(frozen=True)
class RankStart:
    """First order: become a rank, and meet the others."""

    rank: int
    world: int
    device: str
    """`cuda` or `cpu`."""
    search_path: list[str]
    """Folders that modules are imported from."""
    meeting: str
    """Path of the file by which the ranks find each other."""


@dataclass(frozen=True)
class RankWork:
    """The callables of a call, as bytes that only a rank reads."""

    pickled: tuple[bytes, ...]
    """The callable, the one that makes its arguments, and for a check the one that makes the expected
    outputs."""
    files: Mapping[str, str]
    """File of each module that they are from, by name."""
    seed: int


@dataclass(frozen=True)
class Check:
    """Order: compare the outputs of a call with the expected ones."""

    work: RankWork
    reference: Reference
    """Without the expected outputs, which the ranks make."""


@dataclass(frozen=True)
class Time:
    """Order: time a call."""

    work: RankWork
    budget_s: float


@dataclass(frozen=True)
class Doing:
    """Sign of life: the present step of the rank."""

    what: str


@dataclass(frozen=True)
class Done:
    """Answer to an order."""

    value: Any = None


@dataclass(frozen=True)
class Raised:
    """The order has ended with an exception on this rank."""

    error: str
    """Type and text; only the text of an error of this package."""
    at: str
    """Place of the callable's line: `test_k.py:12`; empty if it is none of the callable's."""


@dataclass(frozen=True)
class TimesOfRank:
    """Result of `Time` on one rank."""

    blocks: list[list[float]]
    """Microseconds of each call of each block."""
    late: bool
    recorded: RankTime
    """Mean time, with what the profiler recorded."""
    conditions: Conditions | None = None


Order: TypeAlias = RankStart | Check | Time
Answer: TypeAlias = Doing | Done | Raised
