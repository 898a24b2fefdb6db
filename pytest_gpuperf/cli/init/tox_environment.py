"""The tox environment of the suite, in the file and format that the repository uses for tox."""

from __future__ import annotations

import json
from configparser import ConfigParser
from configparser import Error as IniError
from typing import TYPE_CHECKING, Any

import msgspec

from pytest_gpuperf.cli.init.piece import Piece, appended, read
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.records.json_files import show_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

ENVIRONMENT = "gpuperf"
DESCRIPTION = "measure kernels on a GPU against their baselines, or judge a recording without a GPU"
ADVICE = "# Pin torch and triton: another compiler makes other kernels, with other baselines."
EDITABLE = "# --gpuperf-against imports the old code from its folder: an installed copy would hide it."
DEPENDENCIES = (
    "pytest-gpuperf",
    "torch",
    'triton; sys_platform == "linux"',
    'ncu-report; sys_platform == "linux"',
)
PASSED = ("CUDA_*", "NVIDIA_*", "GITHUB_*", "TRITON_*", "TORCH_*", "CI", "CC", "CXX")
"""Environment variables of the machine, GitHub and the compilers."""
HEAD = f"[tox]\nmin_version = 4.21\nenv_list = {ENVIRONMENT}\n"
THERE = f"has the environment {ENVIRONMENT}"
ADDED = f"the tox environment {ENVIRONMENT}"


def tox_environment(root: Path, suite: str) -> Piece:
    """Add the environment to the file that tox reads, or to a new tox.ini.

    Args:
        root: The top of the project.
        suite: The folder of the tests.

    Raises:
        GpuperfError: A configuration file is broken.
    """
    # In the order in which tox looks; https://tox.wiki/en/stable/config.html#discovery-and-file-types
    if (text := read(root / "tox.ini")) is not None:
        return _in_ini(root / "tox.ini", text, suite)
    if (text := read(root / "setup.cfg")) is not None and "tox:tox" in _sections(root / "setup.cfg", text):
        return _in_ini(root / "setup.cfg", text, suite)
    pyproject: dict[str, Any] = {}
    if (text := read(root / "pyproject.toml")) is not None:
        path, pyproject = root / "pyproject.toml", _document(root / "pyproject.toml", text)
        tox = _table(pyproject, "tool", "tox")
        if tox.keys() - {"legacy_tox_ini"}:
            return _in_toml(path, text, ("tool", "tox"), suite)
        if tox:
            return _in_legacy_toml(path, text, str(tox["legacy_tox_ini"]), suite)
    if (text := read(root / "tox.toml")) is not None:
        return _in_toml(root / "tox.toml", text, (), suite)
    is_package = (root / "setup.py").exists() or pyproject.keys() & {"project", "build-system"}
    section = _ini({}, suite, installs=bool(is_package))
    return Piece(root / "tox.ini", ADDED, f"{HEAD}\n{section}")


def _in_ini(path: Path, text: str, suite: str) -> Piece:
    sections = _sections(path, text)
    if _is_there(sections):
        return Piece(path, THERE)
    return Piece(path, ADDED, appended(text, _ini(sections, suite)))


def _in_legacy_toml(path: Path, text: str, legacy: str, suite: str) -> Piece:
    sections = _sections(path, legacy)
    if _is_there(sections):
        return Piece(path, THERE)
    section = _ini(sections, suite)
    written = legacy.replace("\n", "\r\n") if "\r\n" in text else legacy
    whole = text.replace(written, appended(written, section))

    def expected(document: dict[str, Any]) -> None:
        document["tool"]["tox"]["legacy_tox_ini"] = appended(legacy, section)

    return _checked(path, text, whole, expected, section)


def _in_toml(path: Path, text: str, table: tuple[str, ...], suite: str) -> Piece:
    document = _document(path, text)
    if ENVIRONMENT in _table(document, *table, "env"):
        return Piece(path, THERE)
    section = _toml(_table(document, *table, "env_run_base"), table, suite)
    added = _table(msgspec.toml.decode(section), *table, "env", ENVIRONMENT)

    def expected(document: dict[str, Any]) -> None:
        for key in (*table, "env"):
            document = document.setdefault(key, {})
        document[ENVIRONMENT] = added

    return _checked(path, text, appended(text, section), expected, section)


def _checked(
    path: Path, text: str, whole: str, expect: Callable[[dict[str, Any]], None], section: str
) -> Piece:
    """Return the piece if the new text has the meaning of the old one plus the section.

    TOML has more ways to write a table or a string than this can extend without rewriting the whole file.
    """
    wanted = _document(path, text)
    try:
        expect(wanted)
        if msgspec.toml.decode(whole.removeprefix("\ufeff")) == wanted:
            return Piece(path, ADDED, whole)
    except (msgspec.DecodeError, AttributeError):
        pass
    return Piece(path, "has a format that only you can extend", by_hand=section)


def _is_there(sections: Iterable[str]) -> bool:
    """Return True if an ini file has the environment, also as in `[testenv:{gpuperf,tests}]`."""
    names = (name.removeprefix("testenv:") for name in sections if name.startswith("testenv:"))
    return any(ENVIRONMENT in name.strip("{}").replace(" ", "").split(",") for name in names)


def _ini(sections: Mapping[str, Mapping[str, str]], suite: str, *, installs: bool = True) -> str:
    base = sections.get("testenv", {})
    lines = [f"[testenv:{ENVIRONMENT}]", f"description = {DESCRIPTION}"]
    lines += [EDITABLE, "package = editable"] if installs else ["skip_install = true"]
    lines += [ADVICE, "deps =", *_indented(base, ("deps",), DEPENDENCIES)]
    lines += ["pass_env =", *_indented(base, ("pass_env", "passenv"), PASSED)]
    # A project that is not installed is found in the working directory, which only -m puts on the path.
    pytest = "pytest" if installs else "python -m pytest"
    return "\n".join([*lines, f"commands = {pytest} --gpuperf {{posargs:{suite}}}", ""])


def _indented(base: Mapping[str, str], names: Iterable[str], values: Iterable[str]) -> list[str]:
    """Return the values, after those that all environments share."""
    shared = [f"{{[testenv]{name}}}" for name in names if base.get(name)]
    return [f"    {value}" for value in (*shared, *values)]


def _toml(base: Mapping[str, Any], table: tuple[str, ...], suite: str) -> str:
    lines = [f"[{'.'.join((*table, 'env', ENVIRONMENT))}]", f"description = {json.dumps(DESCRIPTION)}"]
    lines += [EDITABLE, 'package = "editable"']
    for comment, name, values in ((ADVICE, "deps", DEPENDENCIES), ("", "pass_env", PASSED)):
        lines += [comment] if comment else []
        lines.append(f"{name} = [")
        if isinstance(base.get(name), list):
            of = json.dumps([*table, "env_run_base", name])
            lines.append(f'    {{ replace = "ref", of = {of}, extend = true }},')
        lines += [*(f"    {json.dumps(value)}," for value in values), "]"]
    posargs = f'{{ replace = "posargs", default = [{json.dumps(suite)}], extend = true }}'
    return "\n".join([*lines, f'commands = [["pytest", "--gpuperf", {posargs}]]', ""])


def _sections(path: Path, text: str) -> dict[str, dict[str, str]]:
    # The same as tox reads them.
    parser = ConfigParser(interpolation=None)
    try:
        parser.read_string(text.removeprefix("\ufeff"))
    except IniError as error:
        raise _broken(path, str(error).replace("\n", " ")) from None
    return {name: dict(parser[name]) for name in parser.sections()}


def _document(path: Path, text: str) -> dict[str, Any]:
    try:
        document: dict[str, Any] = msgspec.toml.decode(text.removeprefix("\ufeff"))
    except msgspec.DecodeError as error:
        raise _broken(path, str(error)) from None
    return document


def _table(document: dict[str, Any], *keys: str) -> dict[str, Any]:
    """Return a nested table; empty if it does not exist."""
    for key in keys:
        value = document.get(key)
        if not isinstance(value, dict):
            return {}
        document = value
    return document


def _broken(path: Path, why: str) -> GpuperfError:
    return GpuperfError(f"{show_path(path)} cannot be read: {why}", next_step="repair it first")
