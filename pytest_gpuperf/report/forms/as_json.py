"""The data of a report as JSON: structured objects, with all digits."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from pytest_gpuperf.report.table import Items

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pytest_gpuperf.report.table import Report, Screen

PIECE = 1 << 20
"""Number of characters that are written at once."""


def render(report: Report, screen: Screen) -> str:
    """Return indented JSON; a number that is not finite is null."""
    del screen  # for people only
    return "".join(pieces(report))


def pieces(report: Report) -> Iterator[str]:
    """Yield the JSON in pieces of about `PIECE` characters: that of a large run has hundreds of megabytes."""
    waiting: list[str] = []
    size = 0
    for part in _parts(report):
        waiting.append(part)
        size += len(part)
        if size >= PIECE:
            yield escaped("".join(waiting))
            waiting, size = [], 0
    yield escaped("".join(waiting)) + "\n"


def _parts(report: Report) -> Iterator[str]:
    data = report.data() if callable(report.data) else report.data
    if data is None:
        yield from _list(report.records, 0)
    elif isinstance(data, dict) and data:
        for place, (key, value) in enumerate(data.items()):
            yield f"{',' if place else '{'}\n {_formatted(key, 0)}: "
            yield from _list(value, 1) if isinstance(value, Items) else (_formatted(value, 1),)
        yield "\n}"
    else:
        yield _formatted(data, 0)


def _list(items: Iterable[object], depth: int) -> Iterator[str]:
    empty = True
    for item in items:
        yield f"{'[' if empty else ','}\n{' ' * (depth + 1)}{_formatted(item, depth + 1)}"
        empty = False
    yield "[]" if empty else f"\n{' ' * depth}]"


def _formatted(value: object, depth: int) -> str:
    """Return the JSON of a value whose first line is already indented; no string in JSON has a line break."""
    json = msgspec.json.format(msgspec.json.encode(value), indent=1).decode()
    return json.replace("\n", f"\n{' ' * depth}")


def escaped(json: str) -> str:
    """Escape what a terminal or GitHub's runner would execute: control characters, and `##[`."""
    return _UNSAFE.sub(lambda match: _escape(match[0]), json)


_UNSAFE = re.compile(r"[^\x20-\x7e\n]|(?<=##)\[")


def _escape(char: str) -> str:
    if char.isprintable() and char != "[":
        return char
    units = char.encode("utf-16-be")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))
