"""`gpuperf baseline`: accept runs as baselines, and show what would change."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pytest_gpuperf.baseline.merge import accept, plan
from pytest_gpuperf.cli.accepting import (
    APPEND,
    ONLY,
    RUNS,
    TOLERANCE,
    load_runs,
    rule_of,
    show_plans,
    show_written,
)
from pytest_gpuperf.cli.baseline_pin import pin_command, unpin_command
from pytest_gpuperf.cli.baseline_record import record_command
from pytest_gpuperf.cli.baseline_status import status_command
from pytest_gpuperf.cli.output import DEFAULT, output_form
from pytest_gpuperf.cli.project import Project, project_options

if TYPE_CHECKING:
    from pytest_gpuperf.baseline.entry import Which


@click.group("baseline")
def command() -> None:
    """Accept, compare, pin and list baselines."""


@command.command("accept")
@RUNS
@ONLY
@APPEND
@TOLERANCE
@click.option("--incomplete", is_flag=True, help="Accept a run that was interrupted.")
@output_form
@project_options
def accept_command(
    project: Project,
    runs: tuple[str, ...],
    only: Which,
    append: bool | None,
    tolerance: float | None,
    incomplete: bool,
    form: str,
) -> None:
    """Make RUNS the baselines of their GPUs.

    A run is an id, the start of an id, a run.json, or its folder; the newest run by default. Each run becomes
    a session. Limits, notes and pins stay. Refused if CI is set.
    """
    models = load_runs(project, runs)
    plans = [
        accept(
            measured,
            project.store,
            only,
            tolerance or project.tolerance_pct,
            sessions=rule_of(append),
            incomplete=incomplete,
        )
        for measured in models
    ]
    show_plans(project, list(zip(models, plans, strict=True)), form)
    if form == DEFAULT:
        show_written(*plans)


@command.command("diff")
@RUNS
@ONLY
@APPEND
@TOLERANCE
@click.option(
    "--exit-code", is_flag=True, help="Exit with 1 if something is new or moved beyond its tolerance."
)
@output_form
@project_options
def diff_command(
    project: Project,
    runs: tuple[str, ...],
    only: Which,
    append: bool | None,
    tolerance: float | None,
    exit_code: bool,
    form: str,
) -> None:
    """Show the changes that `accept RUNS` would make."""
    used, rule = tolerance or project.tolerance_pct, rule_of(append)
    plans = [
        (measured, plan(measured, project.store, only, used, sessions=rule))
        for measured in load_runs(project, runs)
    ]
    show_plans(project, plans, form)
    if exit_code and any(result.of_kind("new", "changed") for _, result in plans):
        raise click.exceptions.Exit(1)


for subcommand in (record_command, pin_command, unpin_command, status_command):
    command.add_command(subcommand)
