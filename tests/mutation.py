"""Mutation tests by mutmut, which changes the bodies of functions; the settings are in pyproject.toml.

`tox run -e mutants -- pytest_gpuperf/judge/limits.py` lists the changes that no test notices.
"""

from __future__ import annotations

import re
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
    """Return the code and the changed code; empty for another text, or another check of two lengths."""
    lines = [line for line in mutmut("show", mutant).splitlines() if not line.startswith(("---", "+++"))]
    before, after = (" ".join(line[1:].strip() for line in lines if line[:1] == sign) for sign in "-+")
    one, other = (re.sub(r",? *(strict=\w+)?\)", ")", text.replace("XX", "")) for text in (before, after))
    return f"{before} -> {after}" if one.lower() != other.lower() else ""


def main() -> None:
    """Run the mutants of some files, by default of all."""
    modules = [name.removesuffix(".py").replace("/", ".") + ".*" for name in sys.argv[1:]] or ["*"]
    subprocess.run([sys.executable, "-m", "mutmut", "run", *modules], check=True)
    known = EQUIVALENT.read_text(encoding="utf-8").splitlines()
    noticed = unnoticed = 0
    for line in mutmut("results", "--all", "true").splitlines():
        mutant, _, status = line.strip().rpartition(": ")
        if not any(fnmatch(mutant, module) for module in modules):
            continue
        if status in ("killed", "timeout"):
            noticed += 1
        elif (said := change(mutant)) and said not in known:
            unnoticed += 1
            sys.stdout.write(f"{mutant}: {status}\n    {said}\n")
    sys.stdout.write(f"{noticed} of {noticed + unnoticed} mutants noticed\n")


if __name__ == "__main__":
    main()
