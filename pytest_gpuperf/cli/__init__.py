"""The `gpuperf` command: what people do with runs, baselines, recordings and ncu's files."""

from __future__ import annotations

from typing import IO, Any

import click

from pytest_gpuperf._version import __version__
from pytest_gpuperf.cli.baseline import baseline
from pytest_gpuperf.cli.break_even import break_even
from pytest_gpuperf.cli.compare import compare
from pytest_gpuperf.cli.doctor.command import doctor as doctor_command
from pytest_gpuperf.cli.explain import explain
from pytest_gpuperf.cli.export import export
from pytest_gpuperf.cli.init.command import init as init_command
from pytest_gpuperf.cli.metrics import metrics
from pytest_gpuperf.cli.ncu import ncu
from pytest_gpuperf.cli.plot import plot
from pytest_gpuperf.cli.recording import recording
from pytest_gpuperf.cli.trace import trace
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.records.change import printable


class _UserError(click.ClickException):
    exit_code = 2

    def show(self, file: IO[Any] | None = None) -> None:  # noqa: ARG002
        click.echo(f"gpuperf: error: {printable(self.message)}", err=True)


class _Group(click.Group):
    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except GpuperfError as error:
            raise _UserError(str(error)) from None


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="gpuperf", message="%(prog)s %(version)s")
def main() -> None:
    """Runs, baselines, recordings, files of Nsight Compute and torch.profiler, and this machine's state."""


main.add_command(baseline)
main.add_command(break_even)
main.add_command(compare)
main.add_command(doctor_command)
main.add_command(explain)
main.add_command(export)
main.add_command(init_command)
main.add_command(metrics)
main.add_command(ncu)
main.add_command(plot)
main.add_command(recording)
main.add_command(trace)
