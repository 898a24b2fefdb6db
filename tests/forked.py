"""Runs of pytest in processes forked from a server that has the slow imports behind it."""

from __future__ import annotations

import gc
import multiprocessing
import os
import sys
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import loaded_once

if TYPE_CHECKING:
    from collections.abc import Mapping

_SERVER = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload(["forked", *loaded_once.MODULES])


def run_forked(
    arguments: tuple[str, ...], environ: Mapping[str, str], logs: tuple[Path, Path], timeout_s: float | None
) -> int:
    """Run pytest as `python -m pytest` in the working directory does; return its exit status."""
    process = _SERVER.Process(target=_run, args=(arguments, dict(environ), str(Path.cwd()), logs))
    process.start()
    process.join(timeout_s)
    if process.exitcode is None:
        process.kill()
        process.join()
        raise TimeoutError(f"{arguments} takes more than {timeout_s} s")
    return process.exitcode


def _run(
    arguments: tuple[str, ...], environ: Mapping[str, str], folder: str, logs: tuple[Path, Path]
) -> None:
    os.environ.clear()
    os.environ.update(environ)
    os.chdir(folder)
    path = filter(None, environ.get("PYTHONPATH", "").split(os.pathsep))
    sys.path[:] = list(dict.fromkeys([folder, *path, *sys.path]))
    for number, (log, stream) in enumerate(zip(logs, (sys.stdout, sys.stderr), strict=True), start=1):
        with log.open("wb") as file:
            os.dup2(file.fileno(), number)
        assert isinstance(stream, TextIOWrapper)
        stream.reconfigure(encoding="utf-8")
    gc.freeze()  # pytest collects garbage at the end of each run, which takes long with torch's objects
    status = pytest.main(list(arguments))
    sys.stdout.flush()
    sys.exit(int(status))
