"""The start of a side process: the checkout's folders on the import path become those of its own tree.

A copy of this file is the `__main__` of a folder that also holds the package, so that both sides measure
with the same code, whatever their trees hold. It does not import the package: pytest must be the first to do
that.
"""

from __future__ import annotations

import atexit
import ctypes
import json
import os
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import NoReturn


def moved(path: str, checkout: str, tree: str) -> str:
    """Return the tree's counterpart of a path in the checkout; a path without one stays."""
    real = os.path.realpath(path)
    if real != checkout and not real.startswith(checkout + os.sep):
        return path
    counterpart = tree + real[len(checkout) :]
    return counterpart if Path(counterpart).exists() else path


def redirect(checkout: str, tree: str) -> None:
    """Replace folders of `checkout` on `sys.path` and in finders of editable installs by those of `tree`."""
    sys.path[:] = [moved(path, checkout, tree) for path in sys.path]
    for finder in sys.meta_path:
        # setuptools installs such a finder if the folder alone does not lead to a package.
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
    plan = json.loads(Path(os.environ["GPUPERF_SIDE"]).read_bytes())
    if plan["first"]:
        sys.path.insert(1, plan["first"])
    redirect(plan["checkout"], plan["tree"])
    import pytest

    leave(pytest.main())


def leave(status: int) -> NoReturn:
    """End as Python does, but free no objects: those of torch take most of a second of the run."""
    vars(threading)["_shutdown"]()  # waits for threads, and ends pools of processes
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    ctypes.CDLL(None).fflush(None)  # what native code has printed
    os._exit(status)


if __name__ == "__main__":
    main()
