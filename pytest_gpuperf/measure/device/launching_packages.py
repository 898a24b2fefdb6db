"""Installed packages through which tests launch kernels."""

from __future__ import annotations

import re
from functools import cache
from importlib.metadata import distributions, packages_distributions
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from importlib.metadata import Distribution
    from typing import Any

_LAUNCHERS = frozenset(("torch", "triton", "cuda", "cupy", "numba", "cutlass", "jaxlib", "warp"))
"""Modules through which kernels are launched."""
_INSTALLED = re.compile(r"/(?:site|dist)-packages/([^/.]+)")
"""File of an installed module; Debian and NVIDIA's containers have `dist-packages`."""
_packages = cache(packages_distributions)
"""Names of the packages by module, such as `cupy-cuda13x` for `cupy`: slow to find (1.5 s on a machine)."""
_ITSELF = frozenset(("torch", "functorch", "torchgen", "triton", "pytest-gpuperf", "pytest_gpuperf"))
"""Packages, and their modules, whose versions a run has in any case."""


def launching_packages(loaded: Mapping[str, Any]) -> dict[str, str]:
    """Return the versions of installed packages that use torch, Triton or CUDA, by name.

    Those that are known by themselves are left out, and those installed from a file: the project's own.

    Args:
        loaded: The modules, as in `sys.modules`.
    """
    used = set[str]()
    # After each test: torch's own modules, a thousand, are left out, and the shorter side is gone through.
    for module in [one for name, one in [*loaded.items()] if name.partition(".")[0] not in _ITSELF]:
        values = getattr(module, "__dict__", {})
        launches = not values.keys().isdisjoint(_LAUNCHERS)
        if launches and (file := _INSTALLED.search(str(values.get("__file__")))):
            used.add(file[1])
    # Most packages have the name of their module. Python 3.10 finds only some of the others.
    lists = [[name] if _found(name) else _packages().get(name, ()) for name in used - _ITSELF]
    names = {package for packages in lists for package in packages} - _ITSELF
    found = [one for name in sorted(filter(None, names)) for one in _found(name)]
    return {one.name: one.version for one in found if '"file:' not in str(one.read_text("direct_url.json"))}


def _found(package: str) -> list[Distribution]:
    return [*islice(distributions(name=package), 1)]
