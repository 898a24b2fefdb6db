"""Find NVIDIA's tools: on PATH, or in an installation of the CUDA toolkit."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path


def toolkits(system: Path = Path("/usr/local")) -> list[Path]:
    """List the places of CUDA toolkits: those that the environment names, the linked one, then the newest.

    Args:
        system: The folder in which NVIDIA installs them.
    """
    named = [Path(root) for name in ("CUDA_HOME", "CUDA_PATH") if (root := os.environ.get(name))]
    return [*named, system / "cuda", *sorted(system.glob("cuda-*"), key=_release, reverse=True)]


def find_tool(name: str) -> str | None:
    """Find a tool without running it; None if there is none."""
    candidates = [name, *(str(root / "bin" / name) for root in toolkits())]
    return next(filter(None, map(shutil.which, candidates)), None)


def _release(toolkit: Path) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", toolkit.name)]
