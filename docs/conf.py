"""Configuration of the documentation site: `tox -e docs` builds it from the pages in this folder."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from sphinx.util import logging

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from sphinx.application import Sphinx

ROOT = Path(__file__).parent.parent
_PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
_SOURCE = _PROJECT["urls"]["Source"]
sys.path.insert(0, str(ROOT))

project = html_title = _PROJECT["name"]
author = project_copyright = _PROJECT["authors"][0]["name"]
html_theme = "furo"
html_copy_source = False

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
# GitHub's anchors, so that a link works on both sites.
myst_heading_anchors = 4

autodoc_class_signature = "separated"
autodoc_default_options = {
    "members": True,
    "undoc-members": True,
    "inherited-members": "Struct, Exception",
    "exclude-members": "__init__, __new__",
}
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
# A single backquote in a docstring marks code.
default_role = "literal"
nitpicky = True
# Neither is installed to build the site.
autodoc_mock_imports = ["hypothesis", "torch"]
# The build has no network, so names of other projects have no target.
nitpick_ignore_regex = [("py:.*", r"(collections|msgspec|os|pandas|pathlib|pd|pytest|torch|typing)\..*")]
# Aliases of built-in types, and the bounds of numbers.
nitpick_ignore = [("py:class", name) for name in ("Collective", "Factory", "Launches", "MetricValue")]
nitpick_ignore_regex.append(("py:class", r"-?[\d.]+(e[-+]\d+)?"))

SHELVES = {
    "Tutorial": ["tutorial/first-test"],
    "How-to guides": ["how-to/set_a_limit", "how-to/fuzz", "how-to/backward_pass"],
    "Reference": ["reference/gpuperf", "reference/api", "reference/options", "reference/commands"],
    "Explanation": ["explanation/accuracy", "explanation/gate"],
}
"""Navigation: the first pages of each shelf, in this order; the others follow by name."""

_OUTSIDE = re.compile(r"\]\((?P<path>\.\./[^)#\s]*)")
_LOG = logging.getLogger(__name__)


def add_navigation(_app: Sphinx, page: str, source: list[str]) -> None:
    """Append the navigation to the index, where GitHub would show it as a code block."""
    if page != "index":
        return
    for shelf, first in SHELVES.items():
        folder = ROOT / "docs" / first[0].partition("/")[0]
        present = sorted(f"{folder.name}/{path.stem}" for path in folder.glob("*.*"))
        pages = "\n".join(
            sorted(present, key=lambda name: first.index(name) if name in first else len(first))
        )
        source[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {shelf}\n\n{pages}\n```\n"


def link_to_source(app: Sphinx, page: str, source: list[str]) -> None:
    """Point links to files outside this folder to the repository."""
    folder = Path(app.env.doc2path(page)).parent

    def target(match: re.Match[str]) -> str:
        path = (folder / match["path"]).resolve()
        if path.is_relative_to(ROOT / "docs"):
            return match[0]
        if not path.exists():
            _LOG.warning("no such file: %s", match["path"], location=page)
        return f"]({_SOURCE}/blob/main/{path.relative_to(ROOT)}"

    source[0] = _OUTSIDE.sub(target, source[0])


def add_metrics(_app: Sphinx, page: str, source: list[str]) -> None:
    """List the metrics and what each chip lacks, as the API pages list the docstrings."""
    if page == "reference/metrics":
        from docs.metric_lists import with_lists

        source[0] = with_lists(source[0])


_attributes: dict[str, list[str]] = {}


def keep_attribute(
    _app: Sphinx, what: str, name: str, _obj: object, _options: object, lines: list[str]
) -> None:
    """Keep the docstring of an attribute from napoleon, which reads `False: …` as a type."""
    if what in ("attribute", "property"):
        _attributes[name] = list(lines)


def restore_attribute(
    _app: Sphinx, _what: str, name: str, _obj: object, _options: object, lines: list[str]
) -> None:
    """Put the docstring back that napoleon has changed."""
    lines[:] = _attributes.pop(name, lines)


def setup(app: Sphinx) -> None:
    """Connect the functions above."""
    app.connect("source-read", add_navigation)
    app.connect("source-read", add_metrics)
    app.connect("source-read", link_to_source)
    # Napoleon has priority 500.
    app.connect("autodoc-process-docstring", keep_attribute, priority=400)
    app.connect("autodoc-process-docstring", restore_attribute, priority=600)
