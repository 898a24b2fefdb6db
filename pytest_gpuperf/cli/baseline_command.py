"""`gpuperf baseline`: accept runs as baselines, and show what would change."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pytest_gpuperf.baseline.merge import accept, plan
from pytest_gpuperf.cli.acceptance_options import (
    ONLY,
    RUNS,
    TOLERANCE,
    load_runs,
    show_plans,
    show_written,
)
from pytest_gpuperf.cli.baseline_status import status_command
from pytest_gpuperf.cli.groups import CommandGroup
from pytest_gpuperf.cli.output import DEFAULT, output_form
from pytest_gpuperf.cli.project import Project, project_options

if TYPE_CHECKING:
    from pytest_gpuperf.baseline.acceptance import Which


@click.group("baseline", cls=CommandGroup)
def command() -> None:
    """Accept runs as baselines, and list them."""


@command.command("accept")
@RUNS
@ONLY
@TOLERANCE
@click.option("--incomplete", is_flag=True, help="Accept a run that was interrupted.")
@click.option("--dry-run", is_flag=True, help="Show the changes, and write nothing.")
@click.option(
    "--exit-code", is_flag=True, help="With --dry-run: exit with 1 if something is new, moved or refused."
)
@output_form
@project_options
def accept_command(
    project: Project,
    runs: tuple[str, ...],
    only: Which,
    tolerance: float | None,
    incomplete: bool,
    dry_run: bool,
    exit_code: bool,
    form: str,
) -> None:
    """Make RUNS the baselines of their GPUs.

    A run is an id, the start of an id, a run.json, or its folder; the newest run by default. The session
    of a run that passed is added; one that is slower or faster replaces the stored ones. Parts that a test no
    longer measures go. Limits and notes stay. Refused if CI is set, unless it is a dry run.
    """
    if exit_code and not dry_run:
        raise click.UsageError("--exit-code needs --dry-run.")
    models = load_runs(project, runs)
    used = tolerance or project.tolerance_pct
    plans = [
        plan(measured, project.store, only, used)
        if dry_run
        else accept(measured, project.store, only, used, incomplete=incomplete)
        for measured in models
    ]
    show_plans(project, list(zip(models, plans, strict=True)), form)
    if form == DEFAULT and not dry_run:
        show_written(*plans)
    if exit_code and any(each.of_kind("new", "changed", "refused") for each in plans):
        raise click.exceptions.Exit(1)


command.add_command(status_command)
