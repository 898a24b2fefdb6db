"""The `gpuperf` command: work with runs, baselines, recordings and files from ncu."""

from __future__ import annotations

from importlib import import_module
from typing import IO, Any

import click

from pytest_gpuperf._version import __version__
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.records.change import printable

COMMANDS = {
    "baseline": "baseline_command",
    "break-even": "break_even_command",
    "compare": "compare_command",
    "doctor": "doctor.command",
    "explain": "explain_command",
    "export": "export_command",
    "init": "init.command",
    "metrics": "metrics_command",
    "ncu": "ncu_command",
    "plot": "plot_command",
    "recording": "recording_command",
    "trace": "trace_command",
}
"""The module of each command, which has it as `command`; only the module of the typed one is imported."""


class _UserError(click.ClickException):
    exit_code = 2

    def show(self, file: IO[Any] | None = None) -> None:
        del file  # always standard error
        click.echo(f"gpuperf: error: {printable(self.message)}", err=True)


class _Group(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"{__name__}.{COMMANDS[cmd_name]}").command
        return command

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except GpuperfError as error:
            raise _UserError(str(error)) from None


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="gpuperf", message="%(prog)s %(version)s")
def main() -> None:
    """Work with runs, baselines, recordings and profiler files."""
