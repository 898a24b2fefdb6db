"""Check that a side process imports modules from its own tree."""

from __future__ import annotations

import os
import sys
import sysconfig
from functools import cache
from pathlib import Path

from pytest_gpuperf.errors import GpuperfError

PACKAGE = __name__.partition(".")[0]


class Modules:
    """Checks each imported module once.

    Args:
        checkout: Top folder of the checkout.
        tree: Top folder of the code that this process runs.
        other: Top folder of the code of the other side.
    """

    def __init__(self, checkout: str, tree: str, other: str) -> None:
        self._checkout = checkout
        self._tree = tree
        self._other = other
        self._seen: set[str] = set()
        self._wrong: GpuperfError | None = None
        self._shared: list[str] = []
        top = (*Path(tree).glob("*/__init__.py"), *Path(tree).glob("src/*/__init__.py"))
        # This package measures, wherever it is.
        self._packages = {init.parent.name for init in top} - {PACKAGE}
        self._python = tuple(
            os.path.realpath(sysconfig.get_path(name)) + os.sep
            for name in ("stdlib", "platstdlib", "purelib", "platlib")
        )

    def check(self) -> None:
        """Check the new modules.

        Raises:
            GpuperfError: One of them, or an earlier one, is of the other tree, or of an installed copy of a
                package of the tree.
        """
        try:
            self._check_new()
        except GpuperfError as error:
            self._wrong = error
        if self._wrong is not None:
            raise self._wrong

    def new_shared(self) -> list[str]:
        """Return modules that both sides import from the checkout: the old commit lacks them; each once."""
        shared, self._shared = self._shared, []
        return shared

    def _check_new(self) -> None:
        new = sys.modules.keys() - self._seen
        self._seen |= new
        for name in sorted(new):
            # `getattr` would make some modules import others.
            file = getattr(sys.modules.get(name), "__dict__", {}).get("__file__")
            top = name.partition(".")[0]
            if isinstance(file, str) and top not in (PACKAGE, "__main__"):
                self._check(name, top, file)

    def _check(self, name: str, top: str, file: str) -> None:
        place = os.path.join(_real_folder(os.path.dirname(file)), os.path.basename(file))  # noqa: PTH118, PTH119, PTH120
        below_tree, below_other = _below(self._tree, place), _below(self._other, place)
        if place.startswith(self._python) or not (below_tree or below_other):
            if name == top and name in self._packages:
                raise _installed(name)
        elif below_tree:
            # Files that git ignores are links to the checkout.
            if self._tree != self._checkout and Path(place).is_symlink():
                self._shared.append(f"{name} ({below_tree})")
        elif Path(self._tree, below_other).exists():
            raise _misplaced(name, below_other, old=self._tree != self._checkout)
        else:
            self._shared.append(f"{name} ({below_other})")


@cache
def _real_folder(folder: str) -> str:
    return os.path.realpath(folder)


def _below(root: str, path: str) -> str:
    return path[len(root) + 1 :] if path.startswith(root + os.sep) else ""


def _misplaced(name: str, below: str, *, old: bool) -> GpuperfError:
    found, expected = ("the checkout", "the old commit") if old else ("the old commit", "the checkout")
    return GpuperfError(
        f"module {name} was imported from {below} of {found}",
        expected=f"that of {expected}",
        next_step="something leads there by its full path: leave that to PYTHONPATH, to pytest's pythonpath, "
        "or to pip install -e (with --config-settings editable_mode=compat if it uses an import hook)",
    )


def _installed(name: str) -> GpuperfError:
    return GpuperfError(
        f"package {name} was imported from its installed copy, which is neither the old code nor the new",
        expected=f"the {name} of the checkout",
        next_step="pip install -e . or put its folder on PYTHONPATH",
    )
