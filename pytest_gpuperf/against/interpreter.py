"""Python of another environment, for old code that runs with its own Triton, torch and libraries."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from importlib.metadata import distributions
from pathlib import Path

import msgspec

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.processes.children import output_of

PREFIX = "python:"
"""Beginning of a value of `--gpuperf-against` that names an environment."""
PLUGIN = "pytest-gpuperf"
"""Name of this package; that of the run measures both sides."""
ASK_S = 60.0
"""Seconds that Python may take to tell of its environment."""
PROGRAM = """
import json, re, sys
from importlib.metadata import distributions
versions = {str(one.metadata["Name"]): one.version for one in reversed(list(distributions()))}
versions = {re.sub("[-_.]+", "-", name).lower(): version for name, version in versions.items()}
versions["python"] = sys.version.split()[0].strip("+")
print(json.dumps({"prefix": sys.prefix, "versions": versions}))
"""


class Installed(msgspec.Struct, frozen=True):
    """Content of an environment."""

    prefix: str
    """Its top folder."""
    versions: dict[str, str]
    """Versions of Python and of all packages, by name."""


def installed(program: Path) -> Installed:
    """Ask a program of Python for its environment.

    Raises:
        GpuperfError: It does not run, or is another program.
    """
    try:
        lines = output_of([str(program), "-c", PROGRAM], ASK_S).splitlines()
        # A `sitecustomize` may print before.
        return msgspec.json.decode(b"".join(lines[-1:]), type=Installed)
    except (OSError, subprocess.TimeoutExpired, msgspec.DecodeError) as error:
        why = getattr(error, "strerror", None) or "does not answer as Python does"
    raise GpuperfError(
        f"{program}: {why}",
        expected="the folder of a virtual environment, or a program of Python 3.10 or later",
        next_step=f"type --gpuperf-against={PREFIX}PATH, or {PREFIX}PATH@REF with a commit",
    )


def parse(named: str) -> tuple[Path | None, str]:
    """Split what `--gpuperf-against` names: `python:PATH`, `python:PATH@REF` or `REF`.

    The folder of a virtual environment needs no `python:`.

    Returns:
        The program of Python, None for that of the run; and the commit, empty for the checkout.
    """
    # Unlike `Path.expanduser`, it lets a user stand that does not exist.
    place = os.path.expanduser(named.removeprefix(PREFIX))  # noqa: PTH111
    path, at, ref = place.rpartition("@")
    if not at or Path(place).exists():
        path, ref = place, ""
    if not named.startswith(PREFIX) and not (path and Path(path, "pyvenv.cfg").exists()):
        return None, named
    # A link to Python stays one: its own folder tells Python of its environment.
    program = Path(os.path.abspath(path))  # noqa: PTH100
    return program / "bin" / "python" if program.is_dir() else program, ref


def check_plugin(program: Path, other: Installed) -> None:
    """Check that the plugin of this run can be imported in another environment.

    Raises:
        GpuperfError: Python or a package is too old there, or a package is missing.
    """
    from packaging.requirements import Requirement

    lacks = [
        one
        for plugin in list(distributions(name=PLUGIN))[:1]
        for one in map(Requirement, (f"python{plugin.metadata['Requires-Python']}", *(plugin.requires or ())))
        if one.marker is None
        and not one.specifier.contains(other.versions.get(one.name.lower(), "0"), prereleases=True)
    ]
    if lacks:
        install = [str(program), "-m", "pip", "install", *map(str, lacks)]
        other_python = [sys.executable, "-m", "venv", "FOLDER"]
        raise GpuperfError(
            f"{program} cannot run the tests: its environment lacks {', '.join(map(str, lacks))}",
            expected="what pytest-gpuperf needs",
            next_step=shlex.join(other_python if lacks[0].name == "python" else install),
        )


def changes(old: Installed, new: Installed) -> list[str]:
    """Return what differs between two environments: `triton 3.5.1 -> 3.6.0`."""
    before, now = old.versions, new.versions
    return [
        f"{name} {before.get(name, 'none')} -> {now.get(name, 'none')}"
        for name in sorted((before.keys() | now) - {PLUGIN})
        if before.get(name) != now.get(name)
    ]
