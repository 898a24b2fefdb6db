"""`gpuperf doctor`: what of this machine is as a run needs it, and what mends the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import msgspec

from pytest_gpuperf.cli.doctor.check import State
from pytest_gpuperf.cli.project import Project, project_options
from pytest_gpuperf.records.change import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from pytest_gpuperf.cli.doctor.check import Check

STYLES = {State.OK: "green", State.WARNING: "yellow", State.PROBLEM: "bold red", State.ABSENT: "dim"}
LEAST_COLUMNS = 100
"""A log has no width; this is what people read it with."""


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Write a list of checks, each with the same keys.")
@project_options
def doctor(project: Project, as_json: bool) -> None:
    """Show whether this machine is ready to measure, and what mends what is not.

    Looks at the GPU and its driver, hardware counters, the toolchain, other pytest plugins and the
    project; measures nothing and changes nothing. Works without a GPU. Exits with 1 where there is a
    problem; warnings and a missing GPU are none.
    """
    from pytest_gpuperf.cli.doctor import examine
    from pytest_gpuperf.cli.doctor.machine import Machine

    checks = examine(Machine(project))
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(checks), indent=2))
    else:
        _show(checks)
    if any(check.state is State.PROBLEM for check in checks):
        raise click.exceptions.Exit(1)


def _show(checks: Sequence[Check]) -> None:
    from rich.console import Console

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = max(console.width, LEAST_COLUMNS)
    with console.capture() as captured:
        console.print(_table(checks))
    for line in captured.get().splitlines():
        click.echo(line.rstrip())
    click.echo(f"\n{_counts(checks)}")


def _counts(checks: Sequence[Check]) -> str:
    parts = []
    for state in State:
        if count := sum(check.state is state for check in checks):
            plural = "s" if state in (State.PROBLEM, State.WARNING) and count > 1 else ""
            parts.append(f"{count} {state.value}{plural}")
    return ", ".join(parts)


def _table(checks: Sequence[Check]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    theme = ""
    for check in checks:
        if check.theme != theme:
            if theme:
                table.add_row()
            theme = check.theme
            table.add_row(Text(theme, "bold"))
        text = Text(printable(check.text))
        if check.mend:
            text.append(f"\n-> {printable(check.mend)}", "bold")
        table.add_row(Text(f"  {check.name}"), Text(check.state.value, STYLES[check.state]), text)
    return table
