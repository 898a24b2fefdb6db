"""One hash of everything in a project that can change what its tests launch.

The hash covers the contents of all source files of the project as a whole, of distributions that are
installed in editable mode, the versions of the other distributions, and environment variables that the
sources name. It does not follow imports: a change in any source file changes it.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from urllib.request import url2pathname

import msgspec

from pytest_gpuperf.errors import GpuperfError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SUFFIXES = frozenset(
    f".{ending}"
    for ending in (
        *("py", "pyi", "pyx", "so", "c", "cc", "cpp", "cxx", "cu", "h", "hh", "hip", "hpp", "hxx", "cuh"),
        *("inc", "inl", "ptx", "cubin", "fatbin"),
    )
)
"""Endings of the files that kernels and tests are made of."""
MOST_FILES = 20_000
MOST_BYTES = 1 << 29
"""A project with more source files, or more bytes in them, keeps no counters: each run would read them
all."""

_INSTALLED = frozenset(("site-packages", "dist-packages"))
_NOT_OURS = _INSTALLED | {"__pycache__", "node_modules"}
_VARIABLES_OF_LIBRARIES = re.compile(r"(CUDA|CUBLAS|CUDNN|NVIDIA|PYTORCH|TORCH|TRITON)[A-Z0-9_]*")
"""Environment variables that make libraries choose or compile other kernels."""


def project_hash(root: Path) -> str:
    """Compute the hash.

    Args:
        root: The project: pytest's rootdir, or any folder of a git repository.

    Raises:
        OSError: A source file cannot be read.
        GpuperfError: The project has too many source files.
    """
    root = root.resolve()
    top = _git(root, "rev-parse", "--show-toplevel").strip()
    versions, editable = _distributions()
    paths = {path for folder in (Path(top) if top else root, *editable) for path in _sources(folder)}
    if not any(path.is_relative_to(root) for path in paths):  # a project that a repository around it ignores
        paths.update(filter(_is_source, _walk(root)))
    names = frozenset(os.environ) - {"_"}
    found: list[str] = []
    left = MOST_BYTES
    for path in sorted(paths):
        data = path.read_bytes()
        left -= len(data)
        if left < 0 or len(found) >= MOST_FILES:
            raise GpuperfError(
                f"the project has more than {MOST_FILES} source files or {MOST_BYTES >> 20} MiB of them",
                next_step="exclude generated files with .gitignore, or type --gpuperf-counter-cache=off",
            )
        found.append(f"{path} {hashlib.sha256(data).hexdigest()}")
        if names and path.suffix == ".py":
            named = {text.decode(errors="replace") for text in re.findall(rb"[\"'](\w+)[\"']", data)}
            found += [f"{name}={os.environ[name]}" for name in sorted(names & named)]
            names -= named
    of_libraries = (name for name in sorted(names) if _VARIABLES_OF_LIBRARIES.fullmatch(name))
    variables = [f"{name}={os.environ[name]}" for name in of_libraries]
    text = "\0".join([*found, *versions, *variables])
    return hashlib.sha256(text.encode(errors="backslashreplace")).hexdigest()


def _sources(folder: Path) -> Iterator[Path]:
    """List the source files below a folder; with git, only files that are not ignored."""
    listed = _git(folder, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    paths: Iterable[Path] = (folder / name for name in listed.split("\0") if name)
    for path in paths if listed else _walk(folder):
        if path.is_dir():  # a submodule, or another repository below this one
            yield from filter(_is_source, _walk(path))
        elif _is_source(path):
            yield path


def _is_source(path: Path) -> bool:
    return path.suffix in SUFFIXES and path.is_file()


def _walk(folder: Path) -> Iterator[Path]:
    """List the files below a folder, without hidden folders and virtual environments."""
    for here, folders, files in os.walk(folder):
        folders[:] = [
            name
            for name in folders
            if not name.startswith(".")
            and name not in _NOT_OURS
            and not Path(here, name, "pyvenv.cfg").exists()
        ]
        yield from (Path(here, name) for name in files)


def _git(folder: Path, *arguments: str) -> str:
    """Return what git prints, nothing without git or without a repository."""
    try:
        done = subprocess.run(  # noqa: S603
            ["git", "-C", str(folder), *arguments],  # noqa: S607
            capture_output=True,
            check=False,
        )
    except OSError:
        return ""
    return os.fsdecode(done.stdout) if done.returncode == 0 else ""


def _distributions() -> tuple[list[str], list[Path]]:
    """List versions and dates of the installed distributions, and folders of those in editable mode."""
    versions, editable = [], []
    folders = [Path(entry) for entry in dict.fromkeys(sys.path) if Path(entry).name in _INSTALLED]
    for about in sorted(about for folder in folders for about in folder.glob("*.dist-info")):
        versions.append(f"{about.name} {about.stat().st_mtime_ns}")
        origin = about / "direct_url.json"
        if origin.is_file():
            known = msgspec.json.decode(origin.read_bytes(), type=_Origin)
            if known.dir_info.editable and not about.name.startswith("pytest_gpuperf-"):
                editable.append(Path(url2pathname(urlsplit(known.url).path)))
    return versions, editable


class _Folder(msgspec.Struct):
    editable: bool = False


class _Origin(msgspec.Struct):
    """`direct_url.json` of PEP 610."""

    url: str = ""
    dir_info: _Folder = msgspec.field(default_factory=_Folder)
