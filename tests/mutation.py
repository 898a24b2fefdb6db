"""Mutation tests by mutmut: `tox run -e mutants -- pytest_gpuperf/judge/limits.py` lists what no test notices.

mutmut changes the bodies of functions; the settings are in pyproject.toml.
"""

from __future__ import annotations

import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

EQUIVALENT = Path(__file__).with_name("equivalent_mutants.txt")


def mutmut(*arguments: str) -> str:
    """Return the output of a command."""
    command = [sys.executable, "-m", "mutmut", *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def change(mutant: str) -> str:
    """Return the line of the code and the changed one; "" if only a text for a reader is another."""
    lines = mutmut("show", mutant).splitlines()
    before, after = (
        " ".join(
            line[1:].strip() for line in lines if line.startswith(sign) and not line.startswith(3 * sign)
        )
        for sign in "-+"
    )
    only_text = before.lower() in (after.lower(), after.replace("XX", "").lower())
    return "" if only_text else f"{before} -> {after}"


def main() -> int:
    """Run the mutants of some files, by default of all; fail if tests notice less than 95 % of them."""
    modules = [name.removesuffix(".py").replace("/", ".") + ".*" for name in sys.argv[1:]] or ["*"]
    subprocess.run([sys.executable, "-m", "mutmut", "run", *modules], check=True)
    rows = [line.strip().rpartition(": ") for line in mutmut("results", "--all", "true").splitlines()]
    found = {name: status for name, _, status in rows if any(fnmatch(name, pattern) for pattern in modules)}
    known = EQUIVALENT.read_text(encoding="utf-8").splitlines()
    unnoticed = {}
    for name, status in found.items():
        said = "" if status in ("killed", "timeout") else change(name)
        if said and said not in known:
            unnoticed[name] = said
            sys.stdout.write(f"{status}: {name}\n    {said}\n")
    share = 100 * (1 - len(unnoticed) / len(found))
    sys.stdout.write(f"{len(found) - len(unnoticed)} of {len(found)} mutants noticed ({share:.1f} %)\n")
    return share < 95


if __name__ == "__main__":
    raise SystemExit(main())
