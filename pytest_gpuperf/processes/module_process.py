"""Start a module of this package in a separate process, which can neither disturb torch nor end the run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def program(module: str) -> list[str]:
    """Return the command that runs `main` of a module of this package; `sys.argv` begins behind it."""
    # The package must be this version, and may be on the path only through pytest's `pythonpath`. After its
    # import its folder comes last, and the working directory is left out: both may hold modules with names of
    # the standard library.
    package = str(Path(__file__).parents[2])
    search_path = (
        "import sys, typing; sys.path[:] = [sys.argv[1], *filter(None, sys.path)]; import pytest_gpuperf; "
        "sys.path.append(sys.path.pop(0))"
    )
    return [sys.executable, "-c", f"{search_path}; from {module} import main; main()", package]


def ask_apart(module: str, question: bytes) -> subprocess.CompletedProcess[bytes]:
    """Start `main` of a module of this package, which answers the question with `serve`.

    Returns:
        The ended process. Its standard output is empty if a library has ended it.
    """
    return subprocess.run(program(module), input=question, capture_output=True, check=False)  # noqa: S603


def serve(answer: Callable[[bytes], bytes]) -> None:
    """Answer the question on standard input."""
    # The output of a library must not get into the answer.
    with os.fdopen(os.dup(1), "wb") as out:
        os.dup2(2, 1)
        out.write(answer(sys.stdin.buffer.read()))
