"""The start of a side process: the checkout's folders on the import path become those of its own tree.

A copy of this file is the `__main__` of a folder that also holds the package, so that both sides measure
with the same code, whatever their trees hold.
"""

from __future__ import annotations

import atexit
import ctypes
import json
import os
import sys
import threading
from importlib import import_module
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from typing import NoReturn

opened: set[str] = set()
"""Files that old code has opened to read."""
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT


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


class Built:
    """Finds the packages that `gpuperf_build` has made before any other finder sees them.

    Those of editable installs come first otherwise, and lead to the checkout.

    Args:
        folder: The folder of the packages.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def find_spec(self, name: str, path: Sequence[str] | None = None, _: object = None) -> ModuleSpec | None:
        """Find a package in the folder, or a module of such a package."""
        top = PathFinder.find_spec(name.partition(".")[0], [self._folder])
        return PathFinder.find_spec(name, path or [self._folder]) if top is not None else None


def note_opened(event: str, details: tuple[object, ...]) -> None:
    """Note a file that Python opens to read, for `sys.addaudithook`."""
    if event != "open" or not isinstance(details[0], (str, bytes, os.PathLike)):
        return
    if isinstance(details[2], int) and not details[2] & WRITES:
        opened.add(os.path.abspath(os.fsdecode(details[0])))  # noqa: PTH100 - the working directory may change


def main() -> None:
    """Run pytest with the arguments of the command line."""
    plan = json.loads(Path(os.environ["GPUPERF_SIDE"]).read_bytes())
    if plan["first"]:
        sys.path.insert(1, plan["first"])
    if plan["tree"] != plan["checkout"]:
        redirect(plan["checkout"], plan["tree"])
        sys.addaudithook(note_opened)
    if plan["built"]:
        sys.path.insert(1, plan["built"])
        path = filter(None, [plan["built"], os.environ.get("PYTHONPATH")])
        os.environ["PYTHONPATH"] = os.pathsep.join(path)
        sys.meta_path.insert(0, Built(plan["built"]))
    # Before pytest puts folders of the tree ahead of this package; it warns if it cannot rewrite a module.
    import_module("pytest_gpuperf").__doc__ = "PYTEST_DONT_REWRITE"
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
