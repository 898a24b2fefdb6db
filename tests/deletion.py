"""Delete features in a copy of the checkout: what is left must work.

`tox run -e deletion` deletes each feature that another one names alone, then all, imports and lists what is
left, and replays a suite. Then it runs tests of the core without features: those in `CORE`, or
`tox run -e deletion -- tests/unit tests/plugin`, which takes minutes.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from compileall import compile_dir
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from forked import ForkedPython
from pytest_gpuperf.features import FEATURES

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).parents[1]
NAMED = {
    name
    for path in ROOT.glob("pytest_gpuperf/features/*/*.py")
    for name in re.findall(r"pytest_gpuperf\.features\.(\w+)", path.read_text(encoding="utf-8"))
    if name != path.parent.name
}
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
PACKAGES = ("click", "hypothesis", "pandas", "rich.console", "scipy.stats", "torch._dynamo", "triton")
"""What the package imports for seconds: the processes are forked from one that has imported it."""
LEFT = """
import sys
for name in [name for name in sys.modules if name.partition(".")[0] == "pytest_gpuperf"]:
    del sys.modules[name]  # of this checkout
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
    "--ignore=tests/plugin/test_docs.py",  # of pages of features
)


def copy(folder: Path) -> None:
    """Copy the files that git knows, or would add."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)


def without(names: Sequence[str], checkout: Path, command: Sequence[str] = ("-c", LEFT)) -> bool:
    """Run a Python command in a copy without features; say if it succeeds, and why not.

    Args:
        names: The features.
        checkout: What to copy.
        command: Arguments of Python.
    """
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as temporary:
        folder = shutil.copytree(checkout, Path(temporary, "checkout"))
        for name in names:
            shutil.rmtree(folder / "pytest_gpuperf" / "features" / name)
        environ = {**os.environ, "PYTHONPATH": str(folder), "CUDA_VISIBLE_DEVICES": ""}
        log = Path(temporary, "log")
        with log.open("wb") as output:
            failed = ForkedPython(command, cwd=folder, env=environ, stdout=output, forking=False).wait()
        told = f"{log.read_text(encoding='utf-8')[-5000:]}\nFAILED" if failed else "works"
    shown = names[0] if len(names) == 1 else "all"
    sys.stdout.write(f"without {shown}: {told}, {time.monotonic() - begin:.0f} s\n")
    sys.stdout.flush()
    return not failed


def main() -> int:
    """Return 1 if something fails without features."""
    multiprocessing.get_context("forkserver").set_forkserver_preload(["forked", *PACKAGES])
    with tempfile.TemporaryDirectory() as temporary:
        checkout = Path(temporary, "checkout")
        copy(checkout)
        compile_dir(checkout / "pytest_gpuperf", quiet=2)  # once: the copies below have the results
        with ThreadPoolExecutor(2) as pool:
            each = [*((name,) for name in sorted(NAMED)), tuple(FEATURES)]
            worked = list(pool.map(partial(without, checkout=checkout), each))
        shutil.rmtree(checkout / "tests" / "features")
        worked.append(without(tuple(FEATURES), checkout, (*PYTEST, *(sys.argv[1:] or CORE))))
    return int(not all(worked))


if __name__ == "__main__":
    sys.exit(main())
