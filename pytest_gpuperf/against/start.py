"""The start of a worker: the checkout's folders on the import path become those of the worker's own tree.

A copy of this file is the `__main__` of a folder in which the package lies too, so that both workers have
the session's instruments whatever their trees hold. It imports nothing of the package: pytest has to see that
first.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path


def moved(path: str, checkout: str, tree: str) -> str:
    """A file or folder of the checkout as the tree has it; what the tree lacks stays as it is."""
    real = os.path.realpath(path)
    if real != checkout and not real.startswith(checkout + os.sep):
        return path
    counterpart = tree + real[len(checkout) :]
    return counterpart if Path(counterpart).exists() else path


def redirect(checkout: str, tree: str) -> None:
    """Import from `tree` what `sys.path` or an editable install's finder has in `checkout`."""
    sys.path[:] = [moved(path, checkout, tree) for path in sys.path]
    for finder in sys.meta_path:
        # setuptools installs such a finder where a package is not found by its folder alone.
        module = sys.modules.get(getattr(finder, "__module__", ""))
        for packages in (getattr(module, "MAPPING", None), getattr(module, "NAMESPACES", None)):
            if not isinstance(packages, dict):
                continue
            for name, place in packages.items():
                if isinstance(place, str):
                    packages[name] = moved(place, checkout, tree)
                elif isinstance(place, list):
                    place[:] = [moved(path, checkout, tree) for path in place]


def main() -> None:
    """Run pytest with the arguments of the command line."""
    plan = json.loads(Path(os.environ["GPUPERF_WORKER"]).read_bytes())
    if plan["first"]:
        sys.path.insert(1, plan["first"])
    redirect(plan["checkout"], plan["tree"])
    import pytest

    raise SystemExit(pytest.main())


if __name__ == "__main__":
    main()
