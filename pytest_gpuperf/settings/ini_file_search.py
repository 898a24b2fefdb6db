"""Find pytest's configuration file as pytest does, without starting pytest."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import iniconfig
import msgspec

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.records.files import show_path

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

NAMES = ("pytest.toml", ".pytest.toml", "pytest.ini", ".pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg")
"""Names of the file, in order: of several in one folder, the first one with pytest's options counts."""


@dataclass(frozen=True)
class Config:
    """The content of the file."""

    folder: Path
    """Its folder, which is pytest's rootdir."""
    values: Mapping[str, str]
    """Its ini keys."""


def find_config(start: Path) -> Config | None:
    """Find the nearest configuration in a folder or above it; None if there is none.

    Raises:
        GpuperfError: A file on the way cannot be read.
    """
    start = start.absolute()
    for folder in (start, *start.parents):
        for name in NAMES:
            if (folder / name).is_file():
                values = _read(folder / name)
                if values is not None:
                    return Config(folder, {key: _text(value) for key, value in values.items()})
    return None


def _text(value: object) -> str:
    """Format a value as in an ini file."""
    return shlex.join(map(str, value)) if isinstance(value, list) else str(value).strip()


def _read(path: Path) -> Mapping[str, Any] | None:
    """Read the keys; None if the file has none of pytest's."""
    try:
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".toml":
            return _from_toml(path, msgspec.toml.decode(text))
        sections = iniconfig.IniConfig(path.name, data=text).sections
    except (OSError, UnicodeDecodeError, msgspec.DecodeError, iniconfig.ParseError) as error:
        raise GpuperfError(f"{show_path(path)} cannot be read: {error}") from None
    if path.name in ("pytest.ini", ".pytest.ini"):
        return sections.get("pytest", {})
    return sections.get("tool:pytest" if path.name == "setup.cfg" else "pytest")


def _from_toml(path: Path, document: dict[str, Any]) -> Mapping[str, Any] | None:
    if path.name != "pyproject.toml":
        return _table(path, document, "pytest") or {}
    pytest = _table(path, _table(path, document, "tool") or {}, "pytest") or {}
    options = _table(path, pytest, "ini_options")
    return (pytest if options is None else options) or None


def _table(path: Path, parent: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    found = parent.get(name)
    if found is not None and not isinstance(found, dict):
        raise GpuperfError(f"{show_path(path)} has {name} = {found!r}", expected=f"a table [{name}]")
    return found
