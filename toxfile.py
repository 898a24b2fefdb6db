"""A plugin of tox: hand pip's configuration to uv, which does not read it.

A machine that has its own wheels or package index in pip's configuration installs from them here too.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys

_OPTIONS = {"find-links": "UV_FIND_LINKS", "index-url": "UV_DEFAULT_INDEX", "extra-index-url": "UV_INDEX"}
_SEPARATORS = {"UV_FIND_LINKS": ","}


def _pip_configuration() -> dict[str, str]:
    """Return pip's options by name, from its files and from the environment."""
    command = [sys.executable, "-m", "pip", "config", "list"]
    listed = subprocess.run(command, capture_output=True, text=True, check=False).stdout  # noqa: S603
    found = {}
    for line in sorted(listed.splitlines(), reverse=True):  # ":env:." is last, and wins
        name, equals, value = line.partition("=")
        if equals:
            found[name.rpartition(".")[2]] = str(ast.literal_eval(value))
    return found


def _configure_uv() -> None:
    """Set the variables of uv that are not set yet."""
    configured = _pip_configuration()
    if "extra-index-url" in configured:  # pip takes the best version of all indexes
        os.environ.setdefault("UV_INDEX_STRATEGY", "unsafe-best-match")
    for option, variable in _OPTIONS.items():
        if option in configured:
            value = _SEPARATORS.get(variable, " ").join(configured[option].split())
            os.environ.setdefault(variable, value)


_configure_uv()
