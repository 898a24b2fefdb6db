"""What was sampled on a GPU, as JSON lines: written as it comes, read for analysis anywhere."""

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

SCHEMA = 2


class Began(msgspec.Struct, frozen=True, kw_only=True, tag="began"):
    """The first line, again for each process."""

    schema: int = SCHEMA
    date: str
    """UTC, ISO 8601."""
    environment: Environment


class Screened(msgspec.Struct, frozen=True, kw_only=True, tag="screened", omit_defaults=True):
    """One kernel in one fresh process, as one session of the stored screen measures it."""

    process: int
    kernel: str
    permille: int
    """How much more it does than unchanged code."""
    card: str
    """UUID of the GPU."""
    timing: Timing
    seconds: float
    """Wall-clock time of the timing, warm-up included."""
    launches_us: tuple[float, ...]
    """Event pairs around single launches in the same process, for the rules that judge those."""
    launches_s: float
    do_bench_us: float
    do_bench_s: float


class Paired(msgspec.Struct, frozen=True, kw_only=True, tag="paired", omit_defaults=True):
    """One restart of two processes that ran a kernel in turn."""

    restart: int
    """The old code goes ahead in those with even numbers, the new code in the others."""
    kernel: str
    old: int
    """Per mille that the old code does more than unchanged code."""
    new: int
    """The same of the new code: A/A where both are the same."""
    card: str
    log_ratio: float
    """Natural logarithm of new over old time, of the restart, at one SM clock."""
    raw_log_ratio: float
    """The same of the times as they were measured."""
    seconds: float
    """Wall-clock time, on the GPU that both share."""


class Failed(msgspec.Struct, frozen=True, kw_only=True, tag="failed"):
    """What could not be measured."""

    what: str
    why: str


Line: TypeAlias = Began | Screened | Paired | Failed
_LINES: msgspec.json.Decoder[Line] = msgspec.json.Decoder(Began | Screened | Paired | Failed)


def decode(text: bytes) -> Line:
    """One line.

    Raises:
        GpuperfError: It is none of ours.
    """
    try:
        return _LINES.decode(text)
    except msgspec.DecodeError as error:
        raise GpuperfError(f"a line of samples has not the expected form: {error}") from None


class Writer:
    """Appends lines to a file, each on the disk before the next is measured.

    Args:
        path: `NAME.jsonl.gz` is written as `NAME.jsonl` and compressed in the end, so that whatever ends the
            sampling early leaves what there is in plain text.
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
        """Nothing more comes."""
        self._file.close()
        if self._compressed is not None:
            # No name and no date inside, so that the same samples make the same file.
            self._compressed.write_bytes(gzip.compress(self._plain.read_bytes(), mtime=0))
            self._plain.unlink()


def read(paths: Sequence[Path]) -> list[Line]:
    """All lines of all files; processes and restarts of different files have different numbers.

    Raises:
        GpuperfError: A line other than the last of a file is broken, or a file is of a newer schema.
        OSError: As the file system says.
    """
    found: list[Line] = []
    for at, path in enumerate(paths):
        data = path.read_bytes()
        text = gzip.decompress(data) if path.suffix == ".gz" else data
        for line in _whole(text.splitlines()):
            if isinstance(line, Began) and line.schema > SCHEMA:
                raise GpuperfError(f"{path.name} is of schema {line.schema}", expected=f"{SCHEMA} or older")
            if isinstance(line, Screened):
                line = msgspec.structs.replace(line, process=line.process + _APART * at)
            elif isinstance(line, Paired):
                line = msgspec.structs.replace(line, restart=line.restart + _APART * at)
            found.append(line)
    return found


_APART = 1000


def _whole(lines: Sequence[bytes]) -> Iterator[Line]:
    """The lines; the last one may have been cut off by what ended the sampling."""
    for line in lines[:-1]:
        yield decode(line)
    with suppress(GpuperfError):
        yield from map(decode, lines[-1:])
