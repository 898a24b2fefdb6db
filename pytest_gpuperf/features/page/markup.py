"""Pieces of HTML. Every text is escaped here: names and messages may come from a pull request."""

from __future__ import annotations

import base64
import gzip
import hashlib
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING

import msgspec

from pytest_gpuperf.records.change import printable

if TYPE_CHECKING:
    from collections.abc import Sequence


def text(value: str) -> str:
    """Return text that a browser shows as it is, between tags and in quoted attributes."""
    return escape(printable(value))


def link(address: str, shown: str) -> str:
    """Return a link; only its text if it leads to no web site."""
    if not address.startswith(("https://", "http://")):
        return text(shown)
    return f'<a href="{text(address)}" rel="noreferrer">{text(shown)}</a>'


def items(lines: Sequence[str], kind: str) -> str:
    """Return lines as a list with a class; empty without lines."""
    return f'<ul class="{kind}">{"".join(f"<li>{text(line)}</li>" for line in lines)}</ul>' if lines else ""


def packed(data: object) -> str:
    """Return data for scripts as base64 of gzipped JSON, which no text in it can leave."""
    # The same data make the same bytes: no time of packing.
    return base64.b64encode(gzip.compress(msgspec.json.encode(data), mtime=0)).decode()


def asset(name: str, package: str = __package__) -> str:
    """Return a style sheet or script of a package."""
    return files(package).joinpath(name).read_text(encoding="utf-8")


def digest(content: str) -> str:
    """Return the hash by which a Content-Security-Policy allows one script or style sheet."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"
