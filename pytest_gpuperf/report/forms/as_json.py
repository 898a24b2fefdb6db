"""The data of a report as JSON: structured objects, with all digits."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from pytest_gpuperf.report.table import Report, Screen


def render(report: Report, screen: Screen) -> str:
    """Return indented JSON; a number that is not finite is null."""
    del screen  # for people only
    data = report.data() if callable(report.data) else report.data
    shown = list(report.records) if data is None else data
    return escaped(msgspec.json.format(msgspec.json.encode(shown), indent=1).decode()) + "\n"


def escaped(json: str) -> str:
    """Escape characters that a terminal or GitHub's runner would execute: control characters, and `##[`."""
    return _UNSAFE.sub(lambda match: _escape(match[0]), json)


_UNSAFE = re.compile(r"[^\x20-\x7e\n]|(?<=##)\[")


def _escape(char: str) -> str:
    if char.isprintable() and char != "[":
        return char
    units = char.encode("utf-16-be")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))
