"""Pieces of HTML. Every text is escaped here: names and messages may come from a pull request."""

from __future__ import annotations

import base64
import gzip
import hashlib
import re
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING

import msgspec

from pytest_gpuperf._version import __version__
from pytest_gpuperf.records.change import printable
from pytest_gpuperf.report.overwrite_check import GENERATOR

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pytest_gpuperf.report.table import Column, Place, Table

PROSE: frozenset[Place] = frozenset({"prose", "detail"})
"""Places of a table whose cells may be broken into lines."""
_BEFORE_UNIT = re.compile(r"(?<=\d) (?=%|[µmn]?s\b|[KMGT]B\b|[KMGT]iB\b|MHz\b|points\b)")
AT_ONCE = 16
"""Number of rows whose details are packed together: alike ones pack well, and few are unpacked for one."""


def text(value: str) -> str:
    """Return text that a browser shows as it is, between tags and in quoted attributes."""
    return escape(printable(value))


def sentence(value: str) -> str:
    """Return text that a browser breaks into lines, but between no number and its unit."""
    return _BEFORE_UNIT.sub("&nbsp;", text(value))


def anchor(address: str, content: str, label: str = "") -> str:
    """Return markup as a link, with a label for screen readers; as it is if it leads to no web site."""
    if not address.startswith(("https://", "http://")):
        return content
    named = f' aria-label="{text(label)}"' if label else ""
    return f'<a href="{text(address)}" rel="noreferrer"{named}>{content}</a>'


def link(address: str, shown: str) -> str:
    """Return a text as a link; only the text if it leads to no web site."""
    return anchor(address, text(shown))


def items(lines: Sequence[str], kind: str) -> str:
    """Return lines as a list with a class; empty without lines."""
    return f'<ul class="{kind}">{"".join(f"<li>{text(line)}</li>" for line in lines)}</ul>' if lines else ""


def html_table(table: Table, label: str, links: Mapping[tuple[int, int], str] | None = None) -> str:
    """Return a table without its empty columns, and its notes.

    Args:
        table: The table; lines above it are left out.
        label: Name of the table for screen readers.
        links: Addresses of cells by row and column, both from 0.
    """
    shown = [(at, column) for at, column in enumerate(table.columns) if any(column.cells)]
    kinds = [_kind(one) for _, one in shown]
    head = "".join(
        f'<th scope="col" class="{kind}">{text(one.title)}</th>'
        for (_, one), kind in zip(shown, kinds, strict=True)
    )
    rows = []
    for row in range(len(shown[0][1].cells) if shown else 0):
        cells = []
        for (at, column), kind in zip(shown, kinds, strict=True):
            tone = column.tones[row] if column.tones else ""
            content = "\n".join(map(sentence, column.cells[row].splitlines()))
            address = (links or {}).get((row, at), "")
            content = f'<a href="{text(address)}">{content}</a>' if address else content
            cells.append(f'<td class="{kind} {tone}">{content}</td>')
        rows.append(f"<tr>{''.join(cells)}</tr>")
    notes = "".join(f'<p class="note">{text(note)}</p>' for note in table.notes)
    body = f"<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody>"
    return f'<table aria-label="{text(label)}">{body}</table>{notes}'


def _kind(column: Column) -> str:
    """Return the class of a column's cells."""
    if column.place == "unit":
        return "unit"
    return "code" if column.code else "prose" if column.place in PROSE else "number" * column.justified_right


def whole_page(title: str, style: str, script: str, content: Iterator[str]) -> Iterator[str]:
    """Yield a page with its style and script, which asks for no other file.

    Args:
        title: Title of the page.
        style: Name of a style sheet of a feature, `page/page.css`; that of the report comes first.
        script: Name of its script.
        content: Markup between `<body>` and the footer.
    """
    styles = "".join(map(_asset, dict.fromkeys(("page/page.css", style))))
    scripts = "".join(map(_asset, ("page/packed.js", script)))
    policy = (
        f"default-src 'none'; style-src {_digest(styles)}; script-src {_digest(scripts)}; base-uri 'none'"
    )
    yield '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
    yield f'{GENERATOR} {text(__version__)}">\n<meta name="viewport" content="width=device-width">\n'
    yield f'<meta http-equiv="Content-Security-Policy" content="{policy}; form-action \'none\'">\n'
    yield '<meta name="referrer" content="no-referrer"><meta name="color-scheme" content="light dark">\n'
    yield f"<title>{text(title)}</title>\n<style>{styles}</style></head>\n<body>\n"
    yield from content
    yield f"<footer>Written by pytest-gpuperf {text(__version__)}.</footer>\n"
    yield f"<script>{scripts}</script>\n</body></html>\n"


def packed(details: Sequence[str]) -> Iterator[str]:
    """Yield the markup of rows for scripts: base64 of gzipped JSON, which no text in it can leave."""
    for start in range(0, len(details), AT_ONCE):
        data = msgspec.json.encode(details[start : start + AT_ONCE])
        # The same data make the same bytes: no time of packing.
        shown = base64.b64encode(gzip.compress(data, mtime=0)).decode()
        yield f'<script type="text/plain" class="packed">{shown}</script>\n'


def _asset(name: str) -> str:
    """Return a style sheet or script of a feature."""
    return files("pytest_gpuperf.features").joinpath(name).read_text(encoding="utf-8")


def _digest(content: str) -> str:
    """Return the hash by which a Content-Security-Policy allows one script or style sheet."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"
