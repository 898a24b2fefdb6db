"""Delete features in a copy of the checkout: what is left must work.

`tox run -e deletion` deletes each feature alone, imports and lists what is left, and replays a suite; then it
deletes all of them and runs tests of the core: those in `CORE`, or `tox run -e deletion -- tests/plugin`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_gpuperf.features import FEATURES

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).parents[1]
BY_REGISTRY = re.compile(r"pytest_gpuperf\.(cli|plugin|registry|report|session|settings)\b")
CORE = (
    *(
        str(path.relative_to(ROOT))
        for path in sorted(ROOT.glob("tests/unit/test_*.py"))
        if BY_REGISTRY.search(path.read_text(encoding="utf-8"))
    ),
    *("tests/plugin/test_session.py", "tests/plugin/test_replay.py"),
    *("tests/plugin/test_plugin_start.py", "tests/plugin/test_options.py", "tests/plugin/test_marker.py"),
)
"""Unit tests of the rooms that reach features, by the registry alone, and those of runs, replays, options and
markers. The contracts of lint keep features out of all other rooms."""
LEFT = """
import sys
from importlib import import_module
import pytest
from click.testing import CliRunner
from pytest_gpuperf.cli import commands, main
from pytest_gpuperf.registry import registry

for module in (*commands().values(), *registry().names.values(), *registry().plugins):
    import_module(module)
listed = CliRunner().invoke(main, ["--help"])
assert listed.exit_code == 0, listed.output
assert all(f"\\n  {name} " in listed.output for name in commands()), listed.output
sys.exit(pytest.main(["-q", "--gpuperf", "suites/test_square.py", "-k", "torch"]))
"""
"""Imports all that features have registered, lists the commands, and replays tests of a suite."""
PYTEST = (
    *("-m", "pytest", "-q", "-n", "2", "--dist", "loadfile"),
    *("-p", "no:logging", "--hypothesis-profile=ci"),
)


def copy(folder: Path) -> None:
    """Copy the files that git knows, or would add."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)


def works(folder: Path, without: str, *commands: Sequence[str]) -> bool:
    """Run Python commands with the package of a copy; say if all succeed, and why not.

    Args:
        folder: The copy.
        without: What was deleted in it.
        commands: Arguments of Python.
    """
    environ = {**os.environ, "PYTHONPATH": str(folder), "CUDA_VISIBLE_DEVICES": ""}
    begin = time.monotonic()
    for command in commands:
        done = subprocess.run(
            [sys.executable, *command],
            cwd=folder,
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if done.returncode:
            sys.stdout.write(f"{done.stdout[-5000:]}\nwithout {without}: FAILED\n")
            return False
    sys.stdout.write(f"without {without}: works, {time.monotonic() - begin:.0f} s\n")
    sys.stdout.flush()
    return True


def alone(name: str, checkout: Path) -> bool:
    """Say if all works without one feature."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = shutil.copytree(checkout, Path(temporary, "checkout"))
        shutil.rmtree(folder / "pytest_gpuperf" / "features" / name)
        return works(folder, name, ("-c", LEFT))


def main() -> int:
    """Return 1 if something fails without features."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary, "checkout")
        copy(folder)
        with ThreadPoolExecutor(2) as pool:
            worked = list(pool.map(partial(alone, checkout=folder), FEATURES))
        for name in FEATURES:
            shutil.rmtree(folder / "pytest_gpuperf" / "features" / name)
        shutil.rmtree(folder / "tests" / "features")
        worked.append(works(folder, "all", ("-c", LEFT), (*PYTEST, *(sys.argv[1:] or CORE))))
    return int(not all(worked))


if __name__ == "__main__":
    sys.exit(main())
