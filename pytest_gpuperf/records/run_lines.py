"""Run files test by test: one line in memory at a time, as this package has written it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import msgspec

from pytest_gpuperf.records import RUN_SCHEMA, Run, TestRecord
from pytest_gpuperf.records.consistency import in_tests

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

END = b"\n]}\n"
"""The end of a run file, after its last test."""

# Not strict, so that words such as `nan`, which JSON has no number for, read as numbers again.
DECODER = msgspec.json.Decoder(Run, strict=False)
_TEST_DECODER = msgspec.json.Decoder(TestRecord, strict=False)
_LAST = END.strip()
_LONGEST_LINE = 2**25
"""Number of bytes. A file of other tools may be one line, which is slow to take together from pieces."""


def encode_head(run: Run) -> bytes:
    """Return the first line of a run file, which has everything but the tests."""
    return msgspec.json.encode(msgspec.structs.replace(run, tests=()))[:-1] + b',"tests":[\n'


def encode_test(test: TestRecord) -> bytes:
    """Return the line of a test, without its end."""
    line = msgspec.json.encode(test)
    return msgspec.json.encode(_spelled(msgspec.to_builtins(test))) if b"null" in line else line


def _spelled(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _spelled(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_spelled(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def decode_test(line: bytes) -> TestRecord:
    """Read the line of a test, without its end.

    Raises:
        msgspec.MsgspecError: It is not a test.
    """
    return _TEST_DECODER.decode(line)


def read_lines(
    chunks: Iterable[bytes],
    shorten: Callable[[TestRecord], TestRecord],
    places: dict[str, tuple[int, int]] | None = None,
) -> Run | None:
    """Read a run file as this package has written it, with little more memory than its records need.

    A line that is the encoding of its record is valid, and has each key once.

    Args:
        chunks: The content, in pieces.
        shorten: Takes from each test, once it is checked, what the caller does not need.
        places: Gets the begin and the end of each test's line, by node id, before the test is shortened.

    Returns:
        None for every other file, also for a broken one and for impossible tests: it has to be read as a
        whole, which tells what is wrong.
    """
    lines = _lines(chunks)
    try:
        head = next(lines, b"")
        run = DECODER.decode(head + _LAST)
        if run.schema > RUN_SCHEMA or encode_head(run) != head:
            return None
        tests: list[TestRecord] = []
        found = _tests(lines, tests, shorten, {} if places is None else places, len(head))
        if next(in_tests(found), None) is not None or next(lines, b"") != b"":
            return None
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    return msgspec.structs.replace(run, tests=tuple(tests))


def _tests(
    lines: Iterator[bytes],
    kept: list[TestRecord],
    shorten: Callable[[TestRecord], TestRecord],
    places: dict[str, tuple[int, int]],
    begin: int,
) -> Iterator[TestRecord]:
    """Yield each test of a file, and keep what is needed of it.

    Raises:
        ValueError: A line is not as this package writes it.
        msgspec.MsgspecError: A line is not a test.
    """
    end = b",\n"
    for line in lines:
        if line == _LAST + b"\n" and end == b"\n":
            return
        end = b",\n" if line.endswith(b",\n") else b"\n"
        content = line[: -len(end)]
        test = decode_test(content)
        if encode_test(test) != content:
            raise ValueError
        yield test
        places[test.nodeid] = begin, begin + len(content)
        begin += len(line)
        kept.append(shorten(test))
    raise ValueError


def _lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield lines with their ends.

    Raises:
        ValueError: A line is longer than that of any test.
    """
    rest = b""
    for chunk in chunks:
        lines = (rest + chunk).splitlines(keepends=True)
        rest = lines.pop() if lines else b""
        if len(rest) > _LONGEST_LINE:
            raise ValueError
        yield from lines
    yield rest
