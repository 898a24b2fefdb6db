"""Build old code with the project's own command, `gpuperf_build`, and keep the result by commit."""

from __future__ import annotations

import hashlib
import os
import platform
import shlex
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_gpuperf.against.interpreter import installed
from pytest_gpuperf.against.own_code_check import project_names
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.processes.children import run_child
from pytest_gpuperf.records.change import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_gpuperf.against.git import Commit
    from pytest_gpuperf.against.worktree import OldTree

BUILD_S = 1800.0
"""Seconds that the command may take: a library with many CUDA kernels takes minutes."""
BUILDS_KEPT = 10
DONE = "done"
"""File next to the packages of a build that has succeeded."""
LAST_LINES = 3
FLAGS = ("TORCH_CUDA_ARCH_LIST", "CUDA_HOME", "CUDAARCHS", "CC", "CXX", "CFLAGS", "CXXFLAGS", "CMAKE_ARGS")
"""Variables that change what a compiler makes."""
CUDA = ("CUDA_HOME", "CUDA_PATH")
"""Variables that name the installation of CUDA."""


def build(
    old: OldTree,
    commit: Commit,
    command: str,
    capability: str,
    environment: Mapping[str, str],
    tick: Callable[[], None],
) -> Path:
    """Build old code, unless a run before has done so; return the folder of the packages.

    Args:
        old: The old code, in which the command runs.
        commit: Its commit.
        command: The command; `{prefix}` stands for the folder of the packages.
        capability: Compute capability of the GPU, for which compilers build by default.
        environment: Environment of the command; the programs next to the commit's Python come first.
        tick: Called while it runs.

    Raises:
        GpuperfError: The command fails, takes too long, or leaves the folder empty.
    """
    from filelock import FileLock

    folder = builds() / f"{commit.id}-{_key(old.root, commit.python, command, capability, environment)}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.with_suffix(".lock")):
        if not (folder / DONE).exists():
            shutil.rmtree(folder, ignore_errors=True)
            prefix = folder / "prefix"
            prefix.mkdir(parents=True)
            _run(old, commit.python, command, prefix, environment, tick)
            (folder / DONE).touch()
        os.utime(folder)
    _prune(folder.parent)
    return folder / "prefix"


def builds() -> Path:
    """Return the folder of all builds, below the cache of the user."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pytest-gpuperf" / "builds"


def _run(
    old: OldTree,
    python: Path,
    command: str,
    prefix: Path,
    environment: Mapping[str, str],
    tick: Callable[[], None],
) -> None:
    end = time.monotonic() + BUILD_S
    log = prefix.parent / "log"

    def poll() -> None:
        tick()
        if time.monotonic() > end:
            raise GpuperfError(f"gpuperf_build has taken more than {BUILD_S:.0f} s for old code")

    path = os.pathsep.join(filter(None, [str(python.parent), environment.get("PATH")]))
    try:
        words = [word.replace("{prefix}", str(prefix)) for word in shlex.split(command)]
        status = run_child(words, cwd=old.root, env={**environment, "PATH": path}, log=log, poll=poll)
    except OSError as error:
        raise GpuperfError(f"gpuperf_build cannot be run: {error.strerror}: {words[0]}") from None
    except ValueError as error:
        raise GpuperfError(f"gpuperf_build cannot be read: {error}") from None
    if status:
        lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
        last = printable("; ".join(lines[-LAST_LINES:]))
        raise GpuperfError(f"gpuperf_build ended with exit status {status} for old code{old.lacks}: {last}")
    if not any(prefix.iterdir()):
        # A build in place would be gone with the worktree, and this one is kept.
        raise GpuperfError(
            "gpuperf_build has put nothing into {prefix}",
            expected="whole packages in it",
            next_step="in place of `build_ext --inplace` type `python setup.py build --build-lib {prefix}`",
        )


def _key(root: Path, python: Path, command: str, capability: str, environment: Mapping[str, str]) -> str:
    """Return a hash of the other things that a build depends on.

    The version of the installed project is none of them: tools may take it from the commit that is new code.
    """
    compilers = [_identity(name, environment) for name in ("nvcc", "cc", "c++")]
    others = [one for one in installed(python).versions.items() if one[0] not in project_names(root)]
    # The number leaves out builds of former versions, which could contain files of new code.
    parts = [2, command, capability, platform.machine(), sorted(others), compilers]
    return hashlib.sha256(repr([*parts, *map(environment.get, FLAGS)]).encode()).hexdigest()[:16]


def _identity(compiler: str, environment: Mapping[str, str]) -> tuple[str, int]:
    """Return path and time of a compiler; those of a new version differ."""
    folders = [*(f"{environment[name]}/bin" for name in CUDA if name in environment), "/usr/local/cuda/bin"]
    path = shutil.which(compiler, path=os.pathsep.join([*folders, environment.get("PATH", "")]))
    return (os.path.realpath(path), Path(path).stat().st_mtime_ns) if path is not None else ("", 0)


def _prune(folder: Path) -> None:
    """Remove the builds that were not used for longest."""
    found = sorted((one for one in folder.iterdir() if one.is_dir()), key=lambda one: one.stat().st_mtime)
    for old in found[:-BUILDS_KEPT]:
        shutil.rmtree(old, ignore_errors=True)
        old.with_suffix(".lock").unlink(missing_ok=True)
