"""A plugin of tox: hand pip's configuration to uv, which does not read it.

A machine that has its own wheels or package index in pip's configuration installs from them here too.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING

from tox.plugin import impl
from tox.tox_env.errors import Fail

if TYPE_CHECKING:
    from tox.tox_env.api import ToxEnv

_OPTIONS = {
    "find-links": "UV_FIND_LINKS",
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "cert": "SSL_CERT_FILE",
}
_SEPARATORS = {"UV_FIND_LINKS": ",", "UV_INDEX": " "}
"""Separators of the variables that hold lists."""
_SECTIONS = ("global", "install", ":env:")
"""Sections that `pip install` reads; a later one wins."""


def _pip_configuration() -> dict[str, str]:
    """Return pip's options by name, from its files and from the environment."""
    command = [sys.executable, "-m", "pip", "config", "list"]
    listed = subprocess.run(command, capture_output=True, text=True, check=False).stdout  # noqa: S603
    return _effective(listed)


def _effective(listed: str) -> dict[str, str]:
    """Return the options that `pip install` uses, from the output of `pip config list`."""
    found: dict[str, dict[str, str]] = {section: {} for section in _SECTIONS}
    for line in listed.splitlines():
        key, equals, value = line.partition("=")
        section, _, name = key.rpartition(".")
        if equals and section in found:
            found[section][name] = str(ast.literal_eval(value))
    return {name: value for section in _SECTIONS for name, value in found[section].items()}


def _configure_uv() -> None:
    """Set the variables of uv that are not set yet."""
    configured = _pip_configuration()
    if "extra-index-url" in configured:  # pip takes the best version of all indexes
        os.environ.setdefault("UV_INDEX_STRATEGY", "unsafe-best-match")
    for option, variable in _OPTIONS.items():
        if option in configured:
            value = configured[option]
            if variable in _SEPARATORS:
                value = _SEPARATORS[variable].join(value.split())
            os.environ.setdefault(variable, value)


@impl
def tox_on_install(tox_env: ToxEnv) -> None:
    """Refuse the environment `lowest` without tox-uv: pip would install the newest dependencies."""
    if tox_env.name == "lowest" and find_spec("tox_uv") is None:
        raise Fail("lowest: tox-uv is missing; expected tox with tox-uv; type: python -m pip install tox-uv")


_configure_uv()
