"""Ask NVIDIA's libraries in a process of its own, where they can neither disturb torch nor end the run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def ask_apart(module: str, question: bytes) -> subprocess.CompletedProcess[bytes]:
    """Call `main` of a module of this package, which answers the question with `serve`.

    Returns:
        The process that has ended: with no answer on its standard output where a library ended it.
    """
    # The package, which has to be this one and no other version, may be on the path only through pytest's
    # `pythonpath`. Once it is found its folder comes last, and the working directory not at all, for either
    # may hold modules named as those of the standard library.
    package = str(Path(__file__).parents[2])
    search_path = (
        "import sys, typing; sys.path[:] = [sys.argv[1], *filter(None, sys.path)]; import pytest_gpuperf; "
        "sys.path.append(sys.path.pop(0))"
    )
    return subprocess.run(  # noqa: S603
        [sys.executable, "-c", f"{search_path}; from {module} import main; main()", package],
        input=question,
        capture_output=True,
        check=False,
    )


def serve(answer: Callable[[bytes], bytes]) -> None:
    """Answer the question on standard input."""
    # What a library prints must not get into the answer.
    with os.fdopen(os.dup(1), "wb") as out:
        os.dup2(2, 1)
        out.write(answer(sys.stdin.buffer.read()))
