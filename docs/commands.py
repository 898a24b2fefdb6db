"""Run a command as a user would, and keep what it prints free of what differs by machine and time."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import sys
from io import TextIOWrapper
from typing import TYPE_CHECKING

import pytest

from pytest_gpuperf import cli

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

COLUMNS = 100
SLOW_IMPORTS = (
    "triton",
    "torch.fx.experimental.symbolic_shapes",  # for tensors without data
    "pytest_gpuperf.session.replay",
    "pytest_gpuperf.report.publish",
)
_PROGRAMS: dict[str, Callable[[list[str]], object]] = {"pytest": pytest.main, "gpuperf": cli.main}
_KEPT = ("PATH", "HOME", "LANG", "LD_LIBRARY_PATH", "TMPDIR", "TRITON_CACHE_DIR")


def printed(command: str, project: Path, log: Path) -> str:
    """What a command prints; for a process of its own, whose environment and output it takes over.

    Args:
        command: `pytest …` or `gpuperf …`.
        project: Where it is typed.
        log: A file for what it prints.
    """
    environ = {name: os.environ[name] for name in _KEPT if name in os.environ}
    os.environ.clear()
    os.environ.update(environ, COLUMNS=str(COLUMNS), NO_COLOR="1", CUDA_VISIBLE_DEVICES="")
    # Other plugins have their own lines in the output.
    os.environ.update(PYTEST_DISABLE_PLUGIN_AUTOLOAD="1", PYTEST_PLUGINS="pytest_gpuperf.plugin.entry")
    os.chdir(project)
    with log.open("w", encoding="utf-8") as stream:
        os.dup2(stream.fileno(), 1)
        os.dup2(stream.fileno(), 2)
    for own in (sys.stdout, sys.stderr):
        assert isinstance(own, TextIOWrapper)
        # Line by line, so that what goes to both of them stands in the order in which it was written.
        own.reconfigure(encoding="utf-8", line_buffering=True)
    program, *arguments = shlex.split(command)
    with contextlib.suppress(SystemExit):
        _PROGRAMS[program](arguments)
    sys.stdout.flush()
    return _normalised(log.read_text(encoding="utf-8"))


def _normalised(text: str) -> str:
    """Without pytest's header, its durations, addresses, and where the package is installed."""
    text = re.sub(r"(?s)^(=+ test session starts =+\n).*?(?=^collect)", r"\1", text, flags=re.MULTILINE)
    text = re.sub(r"^=+ (\S.*) in [\d.]+s(?: \([\d:]+\))? =+$", _centred, text, flags=re.MULTILINE)
    text = re.sub(r"^(\d.*|no tests ran) in [\d.]+s(?: \([\d:]+\))?$", r"\1", text, flags=re.MULTILINE)
    text = re.sub(r" at 0x[0-9a-f]+>", " at 0x…>", text)
    text = re.sub(r"\S+/(pytest_gpuperf/\S+?):\d+:", r"…/\1:", text)
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines())


def _centred(match: re.Match[str]) -> str:
    return f" {match[1]} ".center(COLUMNS, "=")
