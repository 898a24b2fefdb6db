"""The `gpuperf` command: work with runs, baselines, recordings and files from ncu."""

from __future__ import annotations

import errno
import os
import re
import sys
from importlib import import_module
from pathlib import Path
from typing import IO, Any

import click

from pytest_gpuperf._version import __version__
from pytest_gpuperf.errors import GpuperfError, of_system
from pytest_gpuperf.records.change import printable
from pytest_gpuperf.registry import registry


def commands() -> dict[str, str]:
    """Return the module of each command, which has it as `command`; only that of the typed one is loaded."""
    core = {name: f"{__name__}.{name}_command" for name in ("baseline", "record")}
    return dict(sorted((core | registry().commands).items()))


class _UserError(click.ClickException):
    exit_code = 2

    def show(self, file: IO[Any] | None = None) -> None:
        del file  # always standard error
        # Nobody reads a name of thousands of letters.
        message = re.sub(r"(\S{200})\S{800,}", r"\1…", printable(self.message))
        click.echo(f"gpuperf: error: {message}", err=True)


class _Group(click.Group):
    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        module = commands().get(cmd_name)
        return import_module(module).command if module else None

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except GpuperfError as error:
            raise _UserError(str(error)) from None
        except OSError as error:
            if error.errno == errno.EPIPE:  # the reader of a pipe has gone; click ends
                raise
            raise _UserError(_explained(error)) from None


def _explained(error: OSError) -> str:
    try:
        sys.stdout.flush()
    except OSError:
        # Python would try again at its end, and show a traceback.
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115
        return f"standard output: {of_system(error)}"
    return str(of_system(error))


# click lists these names, and suggests one for a misspelt name.
@click.group(
    cls=_Group,
    commands=[*map(click.Command, commands())],
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="gpuperf", message="%(prog)s %(version)s")
def main() -> None:
    """Work with runs, baselines, recordings and profiler files."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed: the next file that is opened would take its place
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115
