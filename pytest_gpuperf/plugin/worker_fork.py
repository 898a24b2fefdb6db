"""The process of the tests as a fork of the controller, in which Python and pytest have started already.

It is forked before the command line is read completely, so before any conftest.py, and torch, are imported.
While the controller starts, it imports what it needs; then execnet takes it in place of a new Python.
"""

from __future__ import annotations

import gc
import os
import platform
import sys
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from subprocess import PIPE, Popen
from typing import NoReturn

import pytest

from pytest_gpuperf.against.fork_server import native_threads

IMPORTS = ("plugin.hooks", "plugin.facade", "session.live_runner")
"""Modules of this package that it needs; none imports torch, for which a conftest.py may set variables."""
OPEN = "/proc/self/fd"
FORK = pytest.StashKey[tuple[Popen[bytes] | None, dict[str, str]]]()
"""The process, and the environment when it was forked."""


def fork_worker() -> Popen[bytes] | None:
    """Fork the process; None if it would lack a thread or a profiler, or if torch may have used CUDA."""
    # nsys and others are loaded by a variable, and follow processes from the start of their program on.
    tool = sys.gettrace() or os.environ.get("LD_PRELOAD")
    if tool or native_threads() > 1 or "torch" in sys.modules:
        return None
    # A program follows only if this function returns, and it does not.
    become = partial(_become_worker, _descriptors())
    return Popen([sys.executable], stdin=PIPE, stdout=PIPE, preexec_fn=become, restore_signals=False)


def _descriptors() -> set[int]:
    """Return the open descriptors, without that of the list."""
    return {int(one) for one in os.listdir(OPEN) if Path(OPEN, one).is_symlink()}  # noqa: PTH208


def _become_worker(shared: set[int]) -> NoReturn:
    """Import modules, and run the program that execnet sends, or end with the controller.

    Args:
        shared: Descriptors of the controller.
    """
    try:
        for descriptor in _descriptors() - {0, 1, *shared}:
            os.close(descriptor)  # `Popen` waits for one
        gc.enable()
        sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
        # The new pytest adds its own finder that rewrites assertions; each import would ask both.
        sys.meta_path[:] = [finder for finder in sys.meta_path if not hasattr(finder, "mark_rewrite")]
        with suppress(Exception):  # the next import tells it
            for name in IMPORTS:
                import_module(f"pytest_gpuperf.{name}")
        platform.platform()  # pytest-xdist asks for it, which starts a program
        exec(eval(sys.stdin.readline()), {"__name__": "__main__"})  # noqa: S102, S307 - as `popen_bootstrapline`
    finally:
        os._exit(1)
