"""The two sides of a comparison: a process in the checkout, and one in the old tree, otherwise alike."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_gpuperf.against import side_import_path
from pytest_gpuperf.against.interpreter import PLUGIN
from pytest_gpuperf.against.messages import SidePlan
from pytest_gpuperf.settings.settings import SIDE_ENV

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_gpuperf.against.worktree import OldTree
    from pytest_gpuperf.records.passes import Invocation
    from pytest_gpuperf.statistics.sequential import Side


CACHES = ("TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR")
"""Variables whose folders hold compiled code to load: below the checkout it is not that of old code."""
_FOLDERS = re.compile(r"(?<![\w./])(/[^/\s'\"()]+)+/")
"""The folders of an absolute path."""


class Sides:
    """Command, working directory, environment and plan of the side processes of a commit.

    Args:
        checkout: Top folder of the checkout, without symbolic links.
        python: The program of Python that runs old code.
        old: The old code; None if it is the checkout, or if only new code runs.
        built: Folder of the packages built of old code; None for none.
        invocation: The command that started pytest.
        folder: A folder for the program of the processes, and for their plans.
    """

    def __init__(
        self,
        checkout: Path,
        python: Path,
        old: OldTree | None,
        built: Path | None,
        invocation: Invocation,
        folder: Path,
    ) -> None:
        self._checkout = checkout
        self._pythons: Mapping[Side, str] = {"A": str(python), "B": sys.executable}
        self._old = old
        self._built = built
        self._invocation = invocation
        self._folder = folder
        first = Path(invocation.first_on_path or invocation.cwd).resolve()
        self._first = str(first) if first.is_relative_to(checkout) else ""
        self._program = _program(folder / "program")
        self.lacks = old.lacks if old is not None else ""
        """What old code lacks, in brackets; empty if that is nothing."""

    def _tree(self, side: Side) -> Path:
        """Return the top folder of a side's code."""
        return self._old.root if side == "A" and self._old is not None else self._checkout

    def _place(self, path: Path, side: Side) -> Path:
        """Return a side's counterpart of a path; a path outside the checkout stays."""
        path = path.resolve()
        if not path.is_relative_to(self._checkout):
            return path
        return self._tree(side) / path.relative_to(self._checkout)

    def plan(
        self,
        side: Side,
        nodeid: str,
        path: Path,
        labels: Sequence[str],
        imports: Sequence[str],
        driver: str | None,
    ) -> SidePlan:
        """Return the plan of a side's process, without its end of the socket."""
        old, is_old = self._old, side == "A"
        return SidePlan(
            channel=-1,
            checkout=str(self._checkout),
            tree=str(self._tree(side)),
            folder=str(old.folder if is_old and old is not None else self._checkout),
            built=str(self._built or "") if is_old else "",
            other=str(self._tree("B" if is_old else "A")) if old is not None else "",
            first=self._first,
            file=str(self._place(path, side)),
            nodeid=nodeid,
            labels=list(labels),
            imports=list(imports),
            driver=driver if is_old else None,
        )

    def plain(self, text: str) -> str:
        """Remove the machine's folders from a message: records have none."""
        for side in ("A", "B"):
            text = text.replace(f"{self._tree(side)}{os.sep}", "")
        return _FOLDERS.sub("…/", text)

    def plan_file(self, side: Side) -> Path:
        """Return the file of a side's plan."""
        return self._folder / f"{side}.json"

    def cwd(self, side: Side) -> Path:
        """Return a side's working directory; make it if the old code lacks it."""
        place = self._place(self._invocation.cwd, side)
        place.mkdir(parents=True, exist_ok=True)
        return place

    def command(self, side: Side) -> list[str]:
        """Return the run's own command line for a side."""
        rootdir = self._place(self._invocation.rootdir, side)
        rootdir.mkdir(parents=True, exist_ok=True)
        return [
            *(self._pythons[side], str(self._program)),
            *(self._in_text(argument, side) for argument in self._invocation.arguments),
            # The old code's ini file could set these differently, or have options and keys that are gone.
            *(f"--rootdir={rootdir}", "--gpuperf", f"--gpuperf-mode={self._invocation.mode}"),
            f"--override-ini=addopts={self._in_text(shlex.join(self._invocation.addopts), side)}",
            "--override-ini=strict_config=false",
        ]

    def environment(self, side: Side, plan: Path) -> dict[str, str]:
        """Return the environment of a side's process: that of the run's start."""
        environment = dict(self._invocation.environment)
        if side == "A":
            # For programs that tests start; the process corrects its own path when it starts.
            environment |= {name: self._moved(value) for name, value in environment.items() if name != "HOME"}
            for name in CACHES:
                if Path(environment.get(name, "")).is_absolute():
                    environment[name] = str(self._place(Path(environment[name]), side))
            environment["PYTEST_ADDOPTS"] = self._in_text(environment.get("PYTEST_ADDOPTS", ""), side)
            # torch rebuilds an inline extension each time the other side has built one with its name.
            folder = self._old.folder if self._old is not None else self._folder
            environment["TORCH_EXTENSIONS_DIR"] = str(folder / "torch_extensions")
            if self._pythons["A"] != sys.executable:
                programs = [str(Path(self._pythons["A"]).parent), environment.get("PATH")]
                environment["PATH"] = os.pathsep.join(filter(None, programs))
        return {**environment, SIDE_ENV: str(plan)}

    def _moved(self, value: str) -> str:
        """Replace the paths in a variable by those of the old code."""
        paths = value.split(os.pathsep)
        checkout, tree = str(self._checkout), str(self._tree("A"))
        return os.pathsep.join(
            side_import_path.moved(path, checkout, tree) if Path(path).is_absolute() else path
            for path in paths
        )

    def _in_text(self, text: str, side: Side) -> str:
        """Replace the checkout's paths in a part of a command line by those of a side."""
        # A path may begin with the text, after white space, or after the name of an option.
        pattern = rf"(^|\s|=|:|^-\w){re.escape(str(self._checkout))}(?=[/:\s]|$)"
        return re.sub(pattern, lambda found: found[1] + str(self._tree(side)), text)


def _program(folder: Path) -> Path:
    """Make a folder that Python can run: `side_import_path.py` next to a link to this package.

    Python puts it first on the path, before any folder that could hold another `pytest_gpuperf`. pytest finds
    the plugin by its metadata, also in an environment that has none.
    """
    if not folder.exists():
        folder.mkdir()
        (folder / "pytest_gpuperf").symlink_to(Path(__file__).resolve().parents[1])
        shutil.copy(side_import_path.__file__, folder / "__main__.py")
        with suppress(PackageNotFoundError):
            plugin = distribution(PLUGIN)
            metadata = folder / f"pytest_gpuperf-{plugin.version}.dist-info"
            metadata.mkdir()
            for name in ("METADATA", "entry_points.txt"):
                (metadata / name).write_text(plugin.read_text(name) or "", encoding="utf-8")
    return folder
