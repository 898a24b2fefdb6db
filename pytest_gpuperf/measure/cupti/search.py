"""Where copies of libcupti lie: in torch's CUDA wheels, in the CUDA toolkit, in Triton's wheel."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

WHEELS = "torch's CUDA wheels"
TOOLKIT = "the CUDA toolkit"
TRITON = "Triton's wheel"


def copies() -> list[tuple[str, Path]]:
    """Whose copy and its path, for each that this environment has, in the order to take them."""
    toolkits = [Path(root) for name in ("CUDA_HOME", "CUDA_PATH") if (root := os.environ.get(name))]
    return copies_in(
        package_folders("nvidia"), [*toolkits, Path("/usr/local/cuda")], package_folders("triton")
    )


def copies_in(
    wheels: Iterable[Path], toolkits: Iterable[Path], triton: Iterable[Path]
) -> list[tuple[str, Path]]:
    """As `copies`, below given roots.

    Args:
        wheels: Folders of the package `nvidia`.
        toolkits: Roots of CUDA toolkits.
        triton: Folders of the package `triton`.
    """
    return [
        (source, path)
        for source, folder in _folders(wheels, toolkits, triton)
        # The longest name has the whole version; the others are links to it.
        for path in sorted(folder.glob("libcupti.so*"), reverse=True)[:1]
    ]


def package_folders(name: str) -> list[Path]:
    """Folders of a package, without importing it; several where it is spread over distributions."""
    spec = importlib.util.find_spec(name)
    return [Path(folder) for folder in (spec and spec.submodule_search_locations) or ()]


def _folders(
    wheels: Iterable[Path], toolkits: Iterable[Path], triton: Iterable[Path]
) -> Iterator[tuple[str, Path]]:
    for root in wheels:
        # nvidia/cu13/lib from CUDA 13 on, nvidia/cuda_cupti/lib before.
        for folder in sorted(root.glob("*/lib"), reverse=True):
            yield WHEELS, folder
    for root in toolkits:
        for below in ("extras/CUPTI/lib64", "lib64", "lib"):
            yield TOOLKIT, root / below
    for root in triton:
        for folder in sorted((root / "backends" / "nvidia" / "lib").glob("cupti*")):
            yield TRITON, folder
