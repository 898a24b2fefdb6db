"""Run a command as a user would, and return its output without the parts that differ by machine and time."""

from __future__ import annotations

import contextlib
import gc
import io
import os
import re
import shlex
import sys
from io import TextIOWrapper
from typing import TYPE_CHECKING

import pytest
from rich.console import Console
from rich.text import Text

from pytest_gpuperf import cli

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

COLUMNS = 100
SLOW_IMPORTS = (
    "triton",
    "torch.fx.experimental.symbolic_shapes",  # for tensors without data
    "pytest_gpuperf.session.replay_runner",
    "pytest_gpuperf.report.terminal_summary",
)
_PROGRAMS: dict[str, Callable[[list[str]], object]] = {"pytest": pytest.main, "gpuperf": cli.main}
_KEPT = ("PATH", "HOME", "LANG", "LD_LIBRARY_PATH", "TMPDIR", "TRITON_CACHE_DIR")


def printed(command: str, project: Path, log: Path, *, colour: bool = False) -> str:
    """Return the output of a command; it takes over the environment and output of this process.

    Args:
        command: `pytest …` or `gpuperf …`.
        project: Folder in which a user types it.
        log: File that receives the output.
        colour: Keep the colours of pytest's output as ANSI codes.
    """
    environ = {name: os.environ[name] for name in _KEPT if name in os.environ}
    os.environ.clear()
    # Without a visible GPU, every torch gives the same reason for a replay, built with CUDA or not.
    os.environ.update(environ, COLUMNS=str(COLUMNS), CUDA_VISIBLE_DEVICES="")
    os.environ["FORCE_COLOR" if colour else "NO_COLOR"] = "1"
    # Other plugins add lines to the output.
    os.environ.update(PYTEST_DISABLE_PLUGIN_AUTOLOAD="1", PYTEST_PLUGINS="pytest_gpuperf.plugin.entry")
    os.chdir(project)
    with log.open("w", encoding="utf-8") as stream:
        os.dup2(stream.fileno(), 1)
        os.dup2(stream.fileno(), 2)
    for own in (sys.stdout, sys.stderr):
        assert isinstance(own, TextIOWrapper)
        # Line by line, so that the lines of both appear in the order in which they were written.
        own.reconfigure(encoding="utf-8", line_buffering=True)
    program, *arguments = shlex.split(command)
    gc.freeze()  # pytest collects garbage at the end of each run, which takes long with torch's objects
    with contextlib.suppress(SystemExit):
        _PROGRAMS[program](arguments)
    sys.stdout.flush()
    return _normalised(log.read_text(encoding="utf-8"))


def picture(command: str, output: str) -> str:
    """Draw a command and its coloured output as a terminal, in SVG."""
    console = Console(record=True, width=COLUMNS + 6, file=io.StringIO(), highlight=False)
    console.print(Text.from_ansi(f"\x1b[1m$ {command}\x1b[0m\n{output}"))
    svg = console.export_svg(title=command.split()[0], unique_id="gpuperf")
    # GitHub blocks fonts from elsewhere.
    svg = re.sub(r"(?s) *@font-face \{.*?\}\n", "", svg)
    return "".join(f"{line.rstrip()}\n" for line in svg.splitlines())


def _normalised(text: str) -> str:
    """Remove pytest's header, durations, addresses, and the path of the installed package."""
    text = re.sub(r"(?s)^(=+ test session starts =+\n).*?(?=^collect)", r"\1", text, flags=re.MULTILINE)
    text = re.sub(r"^=+ (\S.*) in [\d.]+s(?: \([\d:]+\))? =+$", _centred, text, flags=re.MULTILINE)
    text = re.sub(r"^(\d.*|no tests ran) in [\d.]+s(?: \([\d:]+\))?$", r"\1", text, flags=re.MULTILINE)
    text = re.sub(r" in [\d.]+s(?: \([\d:]+\))?(?=\x1b)", "", text)
    text = re.sub(r"^no GPU, torch \S+ triton \S+$", "no GPU, torch …, triton …", text, flags=re.MULTILINE)
    text = re.sub(r"(run written to \S+/)[\w-]+/run.json", r"\1…/run.json", text)
    text = re.sub(r" at 0x[0-9a-f]+>", " at 0x…>", text)
    text = re.sub(r"\S+/(pytest_gpuperf/\S+?):\d+:", r"…/\1:", text)
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines())


def _centred(match: re.Match[str]) -> str:
    return f" {match[1]} ".center(COLUMNS, "=")
