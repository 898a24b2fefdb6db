"""`gpuperf doctor`: show whether this machine is ready to measure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import msgspec

from pytest_gpuperf.cli.doctor import examine
from pytest_gpuperf.cli.doctor.check import State
from pytest_gpuperf.cli.doctor.machine import Machine
from pytest_gpuperf.cli.output import output_form, show
from pytest_gpuperf.cli.project import Project, project_options
from pytest_gpuperf.report.show import count
from pytest_gpuperf.report.table import Column, Report, Table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_gpuperf.cli.doctor.check import Check
    from pytest_gpuperf.report.table import Tone

TONES: dict[State, Tone] = {
    State.OK: "pass",
    State.WARNING: "unsure",
    State.PROBLEM: "bad",
    State.ABSENT: "absent",
}


@click.command("doctor")
@output_form
@project_options
def command(project: Project, form: str) -> None:
    """Show whether this machine is ready to measure.

    Checks the GPU and its driver, hardware counters, the toolchain, other pytest plugins and the project.
    Measures nothing and changes nothing. Works without a GPU. Exits with 1 if there is a problem; warnings
    and a missing GPU do not count.
    """
    checks = examine(Machine(project))
    show(_report(checks), form)
    if any(check.state is State.PROBLEM for check in checks):
        raise click.exceptions.Exit(1)


def _report(checks: Sequence[Check]) -> Report:
    texts = [check.text + (f"\n-> {check.fix}" if check.fix else "") for check in checks]
    tones = [TONES[check.state] for check in checks]
    columns = [
        Column("", [check.theme for check in checks], "group"),
        Column("", [check.name for check in checks], "name", code=True),
        Column(
            "",
            [check.state.value for check in checks],
            "outcome",
            left=True,
            tones=tones,
        ),
        Column("", texts, "prose"),
    ]
    notes = [", ".join(_counts(checks))]
    return Report([Table(columns, notes=notes)], records=[msgspec.to_builtins(check) for check in checks])


def _counts(checks: Sequence[Check]) -> Iterator[str]:
    for state in State:
        if number := sum(check.state is state for check in checks):
            plural = "s" if state in (State.PROBLEM, State.WARNING) else ""
            yield count(number, state.value, state.value + plural)
