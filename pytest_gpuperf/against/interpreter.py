"""Python of another environment, for old code that runs with its own Triton, torch and libraries."""

from __future__ import annotations

import os
import shlex
import subprocess
from importlib.metadata import PackageNotFoundError, requires
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
import json, platform, re, sys
from importlib.metadata import distributions
versions = {str(one.metadata["Name"]): one.version for one in reversed(list(distributions()))}
versions = {re.sub("[-_.]+", "-", name).lower(): version for name, version in versions.items()}
print(json.dumps({"prefix": sys.prefix, "versions": {**versions, "python": platform.python_version()}}))
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

    Returns:
        The program of Python, None for that of the run; and the commit, empty for the checkout.
    """
    place = named.removeprefix(PREFIX)
    if place == named:
        return None, named
    path, at, ref = place.rpartition("@")
    if not at or Path(place).expanduser().exists():
        path, ref = place, ""
    # A link to Python stays one: its own folder tells Python of its environment.
    program = Path(os.path.abspath(Path(path).expanduser()))  # noqa: PTH100
    return program / "bin" / "python" if program.is_dir() else program, ref


def check_plugin(program: Path, other: Installed) -> None:
    """Check that the plugin of this run can be imported in another environment.

    Raises:
        GpuperfError: A package is missing there, or is too old.
    """
    from packaging.requirements import Requirement

    try:
        needed = [Requirement(line) for line in requires(PLUGIN) or ()]
    except PackageNotFoundError:
        return
    lacks = [
        one
        for one in needed
        if one.marker is None
        and not one.specifier.contains(other.versions.get(one.name.lower(), "0"), prereleases=True)
    ]
    if lacks:
        raise GpuperfError(
            f"{program} cannot run the tests: its environment lacks {', '.join(one.name for one in lacks)}",
            expected="the packages that pytest-gpuperf needs",
            next_step=shlex.join([str(program), "-m", "pip", "install", *map(str, lacks)]),
        )


def changes(old: Installed, new: Installed) -> list[str]:
    """Return what differs between two environments: `triton 3.5.1 -> 3.6.0`."""
    before, now = old.versions, new.versions
    return [
        f"{name} {before.get(name, 'none')} -> {now.get(name, 'none')}"
        for name in sorted((before.keys() | now) - {PLUGIN})
        if before.get(name) != now.get(name)
    ]
