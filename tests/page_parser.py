"""Parts of an HTML page that the package wrote."""

from __future__ import annotations

import base64
import gzip
import json
from html.parser import HTMLParser


class Page(HTMLParser):
    """Tags with their attributes, the text that is seen, and the content of each script by its type."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.scripts: dict[str, list[str]] = {"": [], "text/plain": []}
        self.feed(source)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.cdata_elem == "script":
            self.scripts[self.tags[-1][1].get("type") or ""].append(data)
        elif self.cdata_elem != "style":
            self.text += f" {data}".replace("\N{NO-BREAK SPACE}", " ")

    @property
    def shape(self) -> list[tuple[str, ...]]:
        """Each tag with the names of its attributes."""
        return [(tag, *attrs) for tag, attrs in self.tags]

    @property
    def links(self) -> list[str]:
        """Addresses that the page leads to or loads."""
        return [attrs[k] or "" for _, attrs in self.tags for k in attrs if k in ("href", "src", "action")]

    @property
    def policy(self) -> str:
        """Sources that the page may load and run."""
        (policy,) = (str(attrs["content"]) for _, attrs in self.tags if "http-equiv" in attrs)
        return policy

    @property
    def data(self) -> list[str]:
        """Markup of the rows that its script shows."""
        packs = (gzip.decompress(base64.b64decode(text)) for text in self.scripts["text/plain"])
        return [one for pack in packs for one in json.loads(pack)]
