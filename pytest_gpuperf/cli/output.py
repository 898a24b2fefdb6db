"""The output of commands: the forms of `report.forms`, in the width of the terminal."""

from __future__ import annotations

import functools
import os
import shutil
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click

from pytest_gpuperf.records.change import printable, printable_lines
from pytest_gpuperf.records.files import is_plain, write_files
from pytest_gpuperf.report.forms import FORMS, render
from pytest_gpuperf.report.overwrite_check import refuse_other_file
from pytest_gpuperf.report.table import Screen

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import ParamSpec, TypeVar

    from pytest_gpuperf.records.files import Content
    from pytest_gpuperf.report.table import Report

    P = ParamSpec("P")
    R = TypeVar("R")

DEFAULT = "text"
LEAST_COLUMNS = 40
"""Least width of text, however narrow the terminal."""
LOG_COLUMNS = 100
"""Width of text in a log, which has no width of its own."""


FORCE = click.option("--force", is_flag=True, help="Replace a file that pytest-gpuperf has not written.")
USE_FORCE = "name another file, or add --force"


def output_file(*names: str, required: bool = False, help: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Add an option for a file to write, and `--force`: other files are refused before the command begins.

    Args:
        names: Spellings of the option; the last one names the argument.
        required: True if the command always writes.
        help: Sentence for `--help`.
    """
    kind = click.Path(path_type=Path, dir_okay=False, readable=False)

    def decorate(command: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(command)
        def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
            path = kwargs[names[-1].lstrip("-")]
            if not kwargs.pop("force") and isinstance(path, Path):
                refuse_other_file(path, USE_FORCE)
            return command(*args, **kwargs)

        return click.option(*names, type=kind, required=required, help=help)(FORCE(wrapper))

    return decorate


def screen() -> Screen:
    """Return the width of the terminal, and whether it has colours."""
    columns = shutil.get_terminal_size((LOG_COLUMNS, 0)).columns
    return Screen(max(columns, LEAST_COLUMNS), sys.stdout.isatty() and "NO_COLOR" not in os.environ)


def output_form(command: Callable[P, R]) -> Callable[P, R]:
    """Add a flag for each form to a command, which gets the name of the last one as `form`."""
    for name in reversed(FORMS):
        flag = click.option(f"--{name}", "form", flag_value=name, default=DEFAULT, help=FORMS[name].help)
        command = flag(command)
    return command


def show(report: Report, form: str) -> None:
    """Print a report in one of the forms."""
    echo_data(render(report, form, screen()), is_raw=FORMS[form].is_raw)


def echo_data(text: str, *, is_raw: bool) -> None:
    """Print data; a raw form without characters that a terminal would execute, unless it goes to a file."""
    if is_raw:
        # As bytes: click would remove colours from a file.
        text = text if _is_file(sys.stdout) else printable_lines(text)
        click.echo(text.encode(), nl=False)
    else:
        click.echo(text, nl=False)


def _is_file(stream: TextIO) -> bool:
    try:
        return stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
    except (OSError, ValueError):  # no stream of the system
        return False


def echo(text: str, *, err: bool = False) -> None:
    """Print one line without control characters, which names from files may contain.

    Args:
        text: The line.
        err: True to print to standard error.
    """
    click.echo(printable(text), err=err)


def write(files: Mapping[Path, Content], *said: str) -> None:
    """Write files whose names a user typed, and tell the user.

    Args:
        files: The content of each file.
        said: Lines for standard output; for standard error if a file is a link, a device or a pipe, which may
            be standard output.

    Raises:
        OSError: One of them cannot be written.
    """
    plain = all(map(is_plain, files))
    write_files(files)
    for line in said:
        echo(line, err=not plain)
