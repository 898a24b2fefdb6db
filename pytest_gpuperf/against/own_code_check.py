"""Check that a side process ran its own code: modules, shared objects and data files of its own tree.

Anything below the repository belongs to one commit, also a file that git ignores. What lies elsewhere, as
installed packages and data do, is the same for both sides, unless it was built from the repository.
"""

from __future__ import annotations

import json
import os
import re
import stat
import sys
import tempfile
from contextlib import suppress
from functools import cache, cached_property
from importlib.metadata import distributions
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlparse

from pytest_gpuperf.errors import GpuperfError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.metadata import Distribution

    from pytest_gpuperf.against.messages import SidePlan

PACKAGE = __name__.partition(".")[0]
MAPS, FILES = Path("/proc/self/maps"), Path("/proc/self/fd")
NOT_CODE = re.compile(r"site-packages|dist-packages|__pycache__|.*\.(egg|dist)-info|_version\.py")
"""Folders of tools and environments, and the file that setuptools-scm and hatch-vcs write: no code of the
project."""
OF_TOOLS = re.compile(r"\..*")
"""Folders in which tools keep their data; a module or a shared object there may be a build of the project."""
FINDER = re.compile(r"__editable__.*|_\w+_editable(_loader)?\.py|.*-info/.*")
"""Files of distributions that lead to the code, or describe it."""
OTHER_SECTIONS = re.compile(r"^\[(?!(?:project|tool\.poetry|metadata)\]).*?(?=^\[|\Z)", re.M | re.S)
"""Sections of `pyproject.toml` and `setup.cfg` that name other things, such as an index of packages."""
NAME = re.compile(r"(?:\bname\s*=\s*[\"']?|Extension\(\s*[\"'])([\w.-]+)")
"""A name in a file that builds a project, as it is written there."""
METADATA_NAME = re.compile(r"^Name: *(.+?) *$", re.M)
"""The name of a distribution in its description."""
TOP_PACKAGE = re.compile(r"^([^/,\n]+)/__init__\.py,", re.M)
"""A package in the list of files of a distribution."""
BUILDS = (
    "gpuperf_build = COMMAND builds it for old code too, such as "
    "`pip install --no-deps --no-build-isolation --target {prefix} .`"
)


class Modules:
    """Checks what this process has loaded.

    Args:
        plan: The plan of the side.
        opened: Files that this process has opened, which may grow.
    """

    def __init__(self, plan: SidePlan, opened: set[str]) -> None:
        self._plan = plan
        self._own = tuple(os.path.realpath(place) for place in (plan.folder, plan.built) if place)
        self._other = os.path.realpath(plan.other)
        self._opened = opened
        self._seen: set[str] = set()
        self._wrong: GpuperfError | None = None
        # An environment may lie in the checkout, and temporary files.
        places = {os.path.realpath(place) for place in (sys.prefix, sys.base_prefix, tempfile.gettempdir())}
        self._python = tuple(one for one in places if _is_below(one, (os.path.realpath(plan.checkout),)))
        self._package = os.path.realpath(Path(__file__).parents[1])
        tree = Path(plan.tree)
        top = [one for place in ("*", "src/*", "python/*") for one in tree.glob(f"{place}/__init__.py")]
        # This package measures, wherever it is.
        self._packages = {one.parent.name for one in top} - {PACKAGE}

    def check(self) -> None:
        """Check the modules and files that are new since the last time.

        Raises:
            GpuperfError: Some of it, or of what was found earlier, is of the other side, or an installed copy
                of the project.
        """
        if not self._plan.other:
            return
        try:
            for what, path in self._new():
                self._check(what, path)
        except GpuperfError as error:
            self._wrong = error
        if self._wrong is not None:
            raise self._wrong

    def _new(self) -> Iterator[tuple[str, str]]:
        """Return the loaded files, with their real paths; each path once."""
        found = [*_modules(), *_native(), *((f"file {Path(one).name}", one) for one in self._opened.copy())]
        for what, path in found:
            if path not in self._seen:
                self._seen.add(path)
                yield what, _real_path(path)

    def _check(self, what: str, path: str) -> None:
        if _is_below(path, (*self._own, self._package)):
            return
        if _is_below(path, (self._other,)) and not _is_below(path, self._python):
            below = path[len(self._other) + 1 :]
            is_code = what.startswith("module ") or ".so" in Path(path).suffixes
            harmless = (NOT_CODE,) if is_code else (NOT_CODE, OF_TOOLS)
            if not any(one.fullmatch(part) for one in harmless for part in Path(below).parts):
                raise self._misplaced(what, below)
        if self._is_old and (what.removeprefix("module ") in self._packages or path in self._installed):
            raise GpuperfError(f"{what} is of the installed copy of the project", next_step=BUILDS)

    @property
    def _is_old(self) -> bool:
        return self._plan.tree != self._plan.checkout

    def _misplaced(self, what: str, below: str) -> GpuperfError:
        if not self._is_old:
            return GpuperfError(
                f"{what} was loaded from {below} of old code", expected="that of the checkout"
            )
        if not Path(self._plan.tree, below).exists() or Path(self._plan.tree, below).is_symlink():
            return GpuperfError(f"{what} ({below}) is not in git, so old code has none", next_step=BUILDS)
        return GpuperfError(
            f"{what} was loaded from {below} of the checkout",
            expected="that of old code",
            next_step="something leads there by its full path: leave that to PYTHONPATH, to pytest's "
            "pythonpath, or to pip install -e (with --config-settings editable_mode=compat if it uses an "
            "import hook)",
        )

    @cached_property
    def _installed(self) -> set[str]:
        """Files of the distributions that were built from the repository."""
        return {
            os.path.realpath(str(one.locate_file(file)))
            for one in distributions()
            if self._is_of_project(one)
            for file in one.files or ()
            if not FINDER.fullmatch(str(file))
        }

    def _is_of_project(self, one: Distribution) -> bool:
        """Return True for a distribution with the name or the packages of the project, or built from it."""
        origin = json.loads(one.read_text("direct_url.json") or "{}")
        url = urlparse(str(origin.get("url", "")))
        place = os.path.realpath(unquote(url.path)) + os.sep if url.scheme == "file" else ""
        checkout = (os.path.realpath(self._plan.checkout),)
        # `one.name` would parse the whole description, which takes longer than all other checks.
        name = METADATA_NAME.search(one.read_text("METADATA") or one.read_text("PKG-INFO") or "")
        names = project_names(Path(self._plan.tree))
        if (name and _plain(name[1]) in names) or _is_below(place, checkout):
            return True
        # `setup.py` may compute the name. Others install a package like `tests` too, but next to their own.
        # The lists of torch and others have ten thousands of lines: most are only searched.
        record = f"\n{one.read_text('RECORD') or ''}"
        is_in = any(f"\n{name}/__init__.py," in record for name in self._packages)
        return is_in and self._packages.issuperset(TOP_PACKAGE.findall(record))


@cache
def project_names(tree: Path) -> frozenset[str]:
    """Return names in the files that build the project of a tree: of its distribution and extensions."""
    found: list[str] = []
    for file in ("pyproject.toml", "setup.cfg", "setup.py"):
        with suppress(OSError):
            text = (tree / file).read_text(encoding="utf-8", errors="replace")
            found += NAME.findall(OTHER_SECTIONS.sub("", text))
    return frozenset(map(_plain, found))


def _modules() -> Iterator[tuple[str, str]]:
    for name, module in sorted(sys.modules.items()):
        # `getattr` would make some modules import others. `torch.ops` has a path that is none.
        file = getattr(module, "__dict__", {}).get("__file__")
        is_own = name.partition(".")[0] in (PACKAGE, "__main__", "__mp_main__")
        if isinstance(file, str) and file.startswith(os.sep) and not is_own:
            yield f"module {name}", file


def _native() -> Iterator[tuple[str, str]]:
    """Return the files that are mapped into memory or open: native code does not tell Python of them."""
    with suppress(OSError):
        mapped = [line.partition("/") for line in MAPS.read_text(errors="surrogateescape").splitlines()]
        places = [f"/{path}" for _, slash, path in mapped if slash]
        for one in FILES.iterdir():
            with suppress(OSError):  # closed meanwhile
                is_written = one.lstat().st_mode & stat.S_IWUSR
                places += [] if is_written else [str(one.readlink())]
        for place in dict.fromkeys(places):
            if place.startswith(os.sep):
                path = place.removesuffix(" (deleted)")
                yield f"file {Path(path).name}", path


def _real_path(path: str) -> str:
    """Return the path without links: thousands of modules share their folders, and those their parents."""
    folder, file = os.path.split(path)
    if file in ("", ".", "..") or os.path.islink(path):  # noqa: PTH114 - faster than a `Path`
        return os.path.realpath(path)
    return os.path.join(_real_folder(folder), file)  # noqa: PTH118


_real_folder = cache(_real_path)


def _is_below(path: str, folders: tuple[str, ...]) -> bool:
    return any(path.startswith(folder + os.sep) for folder in folders)


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
