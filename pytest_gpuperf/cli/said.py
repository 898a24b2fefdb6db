"""Messages of commands that write files: lines for people, or with `--json` one document for programs."""

from __future__ import annotations

import functools
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

import click
import msgspec

from pytest_gpuperf.records.change import printable
from pytest_gpuperf.records.json_files import show_path

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import ParamSpec, TypeVar

    P = ParamSpec("P")
    R = TypeVar("R")

_KEY = "pytest_gpuperf.said"


@dataclass
class Said:
    """The files that a command has written, and its lines."""

    files: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    to_stderr: bool = False


def echo(text: str, *, err: bool = False) -> None:
    """Print one line without control characters, which names from files may contain.

    Args:
        text: The line.
        err: True to print to standard error, because a file is the standard output.
    """
    said = _said()
    if said is None:
        click.echo(printable(text), err=err)
    else:
        said.lines.append(printable(text))
        said.to_stderr |= err


def wrote(*paths: Path) -> None:
    """Note files that the command has written."""
    said = _said()
    if said is not None:
        said.files += [show_path(path) for path in paths]


def json_option(command: Callable[P, R]) -> Callable[P, R]:
    """Add `--json` to a command: its files and lines as one document."""

    @functools.wraps(command)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        if not kwargs.pop("as_json"):
            return command(*args, **kwargs)
        context = click.get_current_context()
        said = context.meta[_KEY] = Said()
        result = command(*args, **kwargs)
        document = asdict(said)
        to_stderr = document.pop("to_stderr")
        click.echo(msgspec.json.format(msgspec.json.encode(document), indent=1).decode(), err=to_stderr)
        return result

    return click.option("--json", "as_json", is_flag=True, help="Print the files and lines as JSON.")(wrapper)


def _said() -> Said | None:
    context = click.get_current_context(silent=True)
    return context.meta.get(_KEY) if context is not None else None
