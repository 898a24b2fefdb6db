"""Find NVIDIA's tools and libraries: on PATH, in the CUDA toolkit, or in Python packages."""

from __future__ import annotations

import os
import re
import shutil
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path


def toolkits(system: Path = Path("/usr/local")) -> list[Path]:
    """List the places of CUDA toolkits: those that the environment names, the linked one, then the newest.

    Args:
        system: The folder in which NVIDIA installs them.
    """
    named = [Path(root) for name in ("CUDA_HOME", "CUDA_PATH") if (root := os.environ.get(name))]
    return [*named, system / "cuda", *sorted(system.glob("cuda-*"), key=release, reverse=True)]


def find_tool(name: str) -> str | None:
    """Find a tool without running it; None if there is none."""
    candidates = [name, *(str(root / "bin" / name) for root in toolkits())]
    return next(filter(None, map(shutil.which, candidates)), None)


def release(folder: Path) -> list[int]:
    """Return the numbers in the name of an installation, by which a newer one comes later."""
    return [int(number) for number in re.findall(r"\d+", folder.name)]


def package_paths(name: str, below: str) -> list[Path]:
    """List paths in a package without importing it; several distributions can share a package."""
    spec = None
    with suppress(ValueError):  # a stand-in, which some tests put in its place
        spec = find_spec(name)
    roots = (spec and spec.submodule_search_locations) or ()
    return [path for root in roots for path in sorted(Path(root).glob(below))]
