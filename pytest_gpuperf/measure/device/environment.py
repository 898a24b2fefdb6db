"""Toolchain and commit of a run."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from msgspec.structs import replace

from pytest_gpuperf.records import Environment, Toolchain

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_gpuperf.records import GpuInfo


def environment(gpu: GpuInfo, root: Path, ncu_version: str) -> Environment:
    """Describe GPU, versions and the commit of the repository that holds `root`."""
    commit, dirty = git_state(root)
    toolchain = replace(installed_toolchain(), cuda=_cuda_of_torch(), ncu=ncu_version)
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
    )


def git_state(root: Path) -> tuple[str, bool | None]:
    """Return the commit checked out at `root`, and True if tracked files differ from it.

    Outside a git checkout, as in some CI jobs, the commit is that of `GITHUB_SHA`.
    """
    try:
        commit = _git(root, "rev-parse", "HEAD")
        return commit, bool(_git(root, "status", "--porcelain", "--untracked-files=no"))
    except (OSError, subprocess.CalledProcessError):
        return os.environ.get("GITHUB_SHA", ""), None


def _git(root: Path, *arguments: str) -> str:
    command = ["git", "-C", str(root), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()  # noqa: S603


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
