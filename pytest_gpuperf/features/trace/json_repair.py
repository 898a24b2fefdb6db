"""Repair of JSON of torch.profiler, which does not escape the names of Python code, and writes `inf`."""

from __future__ import annotations

import re

_NAME = re.compile(
    r'("cat"\s*:\s*"[^"]*"\s*,\s*"name"\s*:\s*")((?:(?!"cat"\s*:).)*?)("\s*,\s*"pid"\s*:)', re.DOTALL
)
_QUOTE = re.compile(r'(?<!\\)"')
_ESCAPE = re.compile(r'\\(["\\/bfnrt]|u[0-9a-fA-F]{4})|\\')
_CONTROL = re.compile(r"[\0-\x1f]")
_NO_NUMBER = re.compile(r"(?<=[:,\[])\s*[-+]?(?:inf(?:inity)?|nan(?:\(\w*\))?)(?=\s*[,}\]])", re.IGNORECASE)


def repaired(data: bytes) -> bytes | None:
    """Return JSON with names escaped and `null` for what is no number; None if nothing had to be changed."""
    found = data.decode("utf-8", "replace")
    text = _NAME.sub(lambda name: name[1] + _QUOTE.sub(r"\"", name[2]) + name[3], found)
    text = _ESCAPE.sub(lambda escape: escape[0] if escape[1] else r"\\", text)
    text = _NO_NUMBER.sub(" null", _CONTROL.sub(" ", text))
    return text.encode() if text != found else None
