"""Toolchain and commit of a run."""

from __future__ import annotations

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from msgspec.structs import replace

from pytest_gpuperf.measure.device.launching_packages import launching_packages
from pytest_gpuperf.processes.git import GitError, run_git
from pytest_gpuperf.records import Environment, Toolchain

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_gpuperf.records import GpuInfo


_ALLOCATOR = ("PYTORCH_NO_CUDA_MEMORY_CACHING", "PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")
"""Variables that set torch's allocator."""


def environment(gpu: GpuInfo, root: Path, ncu_version: str) -> Environment:
    """Describe GPU, versions and the commit of the repository that holds `root`."""
    commit, dirty = git_state(root, untracked=True)
    packages = launching_packages(sys.modules)
    toolchain = replace(installed_toolchain(), cuda=_cuda_of_torch(), ncu=ncu_version, packages=packages)
    return Environment(gpu=gpu, toolchain=toolchain, commit=commit, dirty=dirty)


def installed_toolchain() -> Toolchain:
    """Return the versions that are known without an import of torch."""
    from pytest_gpuperf.measure.device.conditions import driver_version

    return Toolchain(
        gpuperf=_version("pytest-gpuperf"),
        python=platform.python_version(),
        pytest=_version("pytest"),
        torch=_version("torch"),
        triton=_version("triton"),
        driver=driver_version(),
        allocator=" ".join(f"{name}={os.environ[name]}" for name in _ALLOCATOR if os.environ.get(name))
        or Toolchain().allocator,
    )


def git_state(root: Path, *, untracked: bool = False) -> tuple[str, bool | None]:
    """Return the commit checked out at `root`, and True if tracked files differ from it.

    With `untracked` also if there are other files that git does not ignore: a run can use them.

    Outside a git checkout, as in some CI jobs, the commit is that of `GITHUB_SHA`.
    """
    try:
        commit = run_git(root, "rev-parse", "HEAD").decode().strip()
        others = "normal" if untracked else "no"
        return commit, bool(run_git(root, "status", "--porcelain", f"--untracked-files={others}"))
    except GitError:
        return os.environ.get("GITHUB_SHA", ""), None


def _cuda_of_torch() -> str:
    try:
        import torch
    except ModuleNotFoundError:
        return ""
    return torch.version.cuda or ""


def _version(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return ""
