"""How commands print tables: as wide as the terminal, or in the form that another program reads."""

from __future__ import annotations

import os
import shutil
import sys
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pytest_gpuperf.records import Run

NARROWEST = 40
"""Columns that text is laid out for, however narrow the terminal says that it is."""


def terminal() -> tuple[int, bool]:
    """Columns to lay text out for, and whether it may be coloured."""
    width = max(shutil.get_terminal_size().columns, NARROWEST)
    return width, sys.stdout.isatty() and "NO_COLOR" not in os.environ


def output_format(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command `--markdown`, `--csv` and `--json`, of which the last one counts, as `form`."""
    for flag, what in (
        ("json", "as JSON, with all digits"),
        ("csv", "as CSV, with all digits"),
        ("markdown", "as Markdown"),
    ):
        command = click.option(f"--{flag}", "form", flag_value=flag, help=f"Print {what}.")(command)
    return command


def source_lines(runs: Iterable[Run]) -> list[str]:
    """Where values are from, a line for each run: its id, GPU, tools and commit."""
    from pytest_gpuperf.report.rows import header_lines

    own = {run.id: run for run in runs}
    return [f"{run.id}: {line}" for run in own.values() for line in header_lines(run.environment, None)]
