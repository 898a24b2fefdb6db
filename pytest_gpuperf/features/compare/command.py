"""`gpuperf compare`: runs, tests and parameters side by side."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import click

from pytest_gpuperf.cli.output import output_form, show
from pytest_gpuperf.cli.project import Project, project_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_gpuperf.report.table import Report


@click.command("compare")
@click.argument("what", metavar="A [B …]", nargs=-1, required=True)
@click.option(
    "--metrics",
    metavar="NAMES",
    default="",
    help="Choose the rows, separated by commas: metrics by short or raw name, presets, or all (default: "
    "times, launches, speed of light, occupancy, registers, hit rates and the largest stalls).",
)
@output_form
@project_options
def command(project: Project, what: tuple[str, ...], metrics: str, form: str) -> None:
    """Compare runs, tests or parameters with the first one.

    A and B are runs (an id, the start of an id, a run.json, its folder, or latest), tests of a run as
    RUN::TEST, or tests of the newest run: a node id, or ::TEST. TEST is a node id with or without its
    parameters, one parameter, or a part of names. A single test compares its own parameters or labels.
    """
    names = [name.strip() for name in metrics.split(",") if name.strip()]
    show(_report(project, what, names), form)


def _report(project: Project, what: Sequence[str], names: Sequence[str]) -> Report:
    """Return the comparison."""
    from pytest_gpuperf.features.compare.measurement_table import compare_measurements
    from pytest_gpuperf.features.compare.report import comparison_report, source_lines
    from pytest_gpuperf.features.compare.selectors import choose_all

    load = cache(project.load_all)  # a run is often named twice, with two tests
    choices = [choice for ref in what for choice in choose_all(ref, load)]
    source = source_lines(choice.run for choice in choices)
    return comparison_report(compare_measurements(choices, names), source)
