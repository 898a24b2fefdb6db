"""`gpuperf compare`: runs, tests or parametrizations side by side."""

from __future__ import annotations

import os
import shutil
import sys
from typing import TYPE_CHECKING

import click

from pytest_gpuperf.cli.ncu import NARROWEST
from pytest_gpuperf.cli.project import Project, echo, project_options

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_gpuperf.configurations.choosing import Choice


def output_format(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command `--markdown`, `--csv` and `--json`, of which the last one counts."""
    for flag, what in (
        ("json", "as JSON, with all digits"),
        ("csv", "as CSV, with all digits"),
        ("markdown", "as Markdown"),
    ):
        command = click.option(f"--{flag}", "form", flag_value=flag, help=f"Print {what}.")(command)
    return command


def head_lines(choices: list[Choice]) -> list[str]:
    """The runs that a table is of, a line each."""
    from pytest_gpuperf.report.layout import wrapped
    from pytest_gpuperf.report.rows import header_lines

    runs = {choice.run.id: choice.run for choice in choices}
    found = [f"{run.id}: {line}" for run in runs.values() for line in header_lines(run.environment, None)]
    return wrapped(found, terminal()[0])


def terminal() -> tuple[int, bool]:
    """Columns to lay text out for, and whether it may be coloured."""
    width = max(shutil.get_terminal_size().columns, NARROWEST)
    return width, sys.stdout.isatty() and "NO_COLOR" not in os.environ


@click.command()
@click.argument("what", metavar="A [B …]", nargs=-1, required=True)
@click.option(
    "--metrics",
    metavar="NAMES",
    default="",
    help="The rows, separated by commas: metrics by short or raw name, presets, or all (default: times, "
    "launches, speed of light, occupancy, registers, hit rates and the largest stalls).",
)
@output_format
@project_options
def compare(project: Project, what: tuple[str, ...], metrics: str, form: str | None) -> None:
    """Show measurements side by side, with the changes against the first.

    A and B are runs (an id, the start of one, a run.json, a folder that holds one, or latest), tests of a
    run as RUN::TEST, or tests of the newest run: a node id, or ::TEST. TEST is a node id with or without
    its parameters, or a part of names. One test with parameters or labels is compared with itself.
    """
    from pytest_gpuperf.configurations import side_by_side
    from pytest_gpuperf.configurations.choosing import choose
    from pytest_gpuperf.report import side_by_side as report

    choices = [choose(ref, project.load) for ref in what]
    names = [name.strip() for name in metrics.split(",") if name.strip()]
    table = side_by_side.compare(choices, names)
    if form is not None:
        write = {"json": report.as_json, "csv": report.as_csv, "markdown": report.as_markdown}[form]
        click.echo(write(table), nl=False)
        return
    for line in head_lines(choices):
        echo(line)
    width, colour = terminal()
    click.echo("\n".join(["", *report.terminal_lines(table, width=width, colour=colour)]))
