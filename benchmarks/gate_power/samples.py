"""Samples as JSON lines: written during the measurement on a GPU, read for analysis anywhere."""

from __future__ import annotations

import gzip
from contextlib import suppress
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.records import Environment, Timing

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from pytest_gpuperf.records import Run

SCHEMA = 2


class Began(msgspec.Struct, frozen=True, kw_only=True, tag="began"):
    """First line of each process."""

    schema: int = SCHEMA
    date: str
    """UTC, ISO 8601."""
    environment: Environment


class SessionSample(msgspec.Struct, frozen=True, kw_only=True, tag="session", omit_defaults=True):
    """Session of one kernel: its time in one fresh process."""

    process: int
    kernel: str
    permille: int
    """Added work in ‰ of unchanged code."""
    card: str
    """UUID of the GPU."""
    timing: Timing
    seconds: float
    """Wall-clock time of the timing, with warm-up."""
    launches_us: tuple[float, ...] = ()
    """Times of single launches by event pairs in the same process, for the rules that judge them."""
    launches_s: float = 0.0
    do_bench_us: float = 0.0
    do_bench_s: float = 0.0


def model_key(kernel: str, mode: str, source: str) -> str:
    """Return the key of a clock model among those of a session."""
    return f"{kernel}, {mode}, {source}"


class RestartSample(msgspec.Struct, frozen=True, kw_only=True, tag="restart", omit_defaults=True):
    """Restart of two processes that ran a kernel in turn."""

    restart: int
    """Number; the old code goes first in even restarts, the new code in odd ones."""
    kernel: str
    old: int
    """Added work of the old code in ‰ of unchanged code."""
    new: int
    """Added work of the new code; unchanged code if both are the same."""
    card: str
    log_ratio: float
    """Natural logarithm of new over old time, at one SM clock."""
    raw_log_ratio: float
    """The same for times as measured."""
    error: float = 0.0
    """Standard error of `log_ratio` by the spread of the restart's quads; 0 in older samples."""
    seconds: float
    """Wall-clock time on the GPU that both share."""


class SettledSuspect(msgspec.Struct, frozen=True, kw_only=True, tag="suspect", omit_defaults=True):
    """A test outside the screen in a run of unchanged code, and the restarts that settled it."""

    test: str
    """Node id and label."""
    card: str
    mode: str
    log_ratios: tuple[float, ...]
    """Natural logarithm of new over old time in each restart, at one SM clock."""
    raw_log_ratios: tuple[float, ...]
    """The same for times as measured."""
    new_first: tuple[bool, ...]
    """For each restart, True if the new code went first."""
    seconds: float
    """Wall-clock time of its settlement."""


def suspects(run: Run) -> Iterator[Began | SettledSuspect]:
    """Return the suspects of unchanged code that a run settled in turn."""
    yield Began(date=run.started_at, environment=run.environment)
    for record in run.tests:
        for label, one in record.measurements.items():
            settled = one.settlement
            if settled is not None and settled.how == "in turn" and (turn := settled.against) is not None:
                yield SettledSuspect(
                    test=f"{record.nodeid} ({label})",
                    card=record.gpu_uuid,
                    mode=turn.mode or "",
                    log_ratios=turn.log_ratios,
                    raw_log_ratios=turn.raw_log_ratios,
                    new_first=turn.new_first,
                    seconds=settled.seconds,
                )


class Failed(msgspec.Struct, frozen=True, kw_only=True, tag="failed"):
    """Failed measurement."""

    what: str
    why: str


Line: TypeAlias = Began | SessionSample | RestartSample | SettledSuspect | Failed
_LINES: msgspec.json.Decoder[Line] = msgspec.json.Decoder(
    Began | SessionSample | RestartSample | SettledSuspect | Failed
)


def decode(text: bytes) -> Line:
    """Decode one line.

    Raises:
        GpuperfError: The line is not a sample.
    """
    try:
        return _LINES.decode(text)
    except msgspec.DecodeError as error:
        raise GpuperfError(f"a line of samples has an unexpected form: {error}") from None


class Writer:
    """Writer of lines to a file, each on the disk before the next is measured.

    Args:
        path: `NAME.jsonl.gz` is written as `NAME.jsonl` and compressed at the end, so that an early end
            leaves plain text.
    """

    def __init__(self, path: Path) -> None:
        self._compressed = path if path.suffix == ".gz" else None
        self._plain = path.with_suffix("") if path.suffix == ".gz" else path
        self._plain.parent.mkdir(parents=True, exist_ok=True)
        self._file = self._plain.open("wb")

    def write(self, line: Line) -> None:
        """Append a line."""
        self._file.write(msgspec.json.encode(line) + b"\n")
        self._file.flush()

    def close(self) -> None:
        """Close the file and compress it."""
        self._file.close()
        if self._compressed is not None:
            # Without name and date, so that the same samples make the same file.
            self._compressed.write_bytes(gzip.compress(self._plain.read_bytes(), mtime=0))
            self._plain.unlink()


def read(paths: Sequence[Path]) -> list[Line]:
    """Read all lines of all files; number processes and restarts of different files apart.

    Raises:
        GpuperfError: A line other than the last of a file is broken, or a file is of a newer schema.
        OSError: A file cannot be read.
    """
    found: list[Line] = []
    for at, path in enumerate(paths):
        data = path.read_bytes()
        text = gzip.decompress(data) if path.suffix == ".gz" else data
        for line in _whole(text.splitlines()):
            if isinstance(line, Began) and line.schema > SCHEMA:
                raise GpuperfError(f"{path.name} is of schema {line.schema}", expected=f"{SCHEMA} or older")
            if isinstance(line, SessionSample):
                line = msgspec.structs.replace(line, process=line.process + _APART * at)
            elif isinstance(line, RestartSample):
                line = msgspec.structs.replace(line, restart=line.restart + _APART * at)
            found.append(line)
    return found


_APART = 1000


def _whole(lines: Sequence[bytes]) -> Iterator[Line]:
    """Yield the lines; the last one may be cut off."""
    for line in lines[:-1]:
        yield decode(line)
    with suppress(GpuperfError):
        yield from map(decode, lines[-1:])
