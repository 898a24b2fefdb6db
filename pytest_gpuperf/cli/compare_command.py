"""`gpuperf compare`: runs, tests and parameters side by side."""

from __future__ import annotations

from functools import cache, partial
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
@click.option(
    "--shares",
    is_flag=True,
    help="Show shares of the first value, 97.4 %, in place of changes, -2.6 %.",
)
@click.option(
    "--sass",
    is_flag=True,
    help="Compare the machine code of the kernels of two runs on this machine: instructions by opcode, and "
    "their difference.",
)
@output_form
@project_options
def command(
    project: Project, what: tuple[str, ...], metrics: str, shares: bool, sass: bool, form: str
) -> None:
    """Compare runs, tests or parameters with the first one.

    A and B are runs (an id, the start of an id, a run.json, its folder, or latest), tests of a run as
    RUN::TEST, or tests of the newest run: a node id, or ::TEST. TEST is a node id with or without its
    parameters, or a part of names. A single test compares its own parameters or labels.
    """
    if sass:
        if metrics or shares:
            raise click.UsageError("--sass compares instructions, and takes neither --metrics nor --shares")
        show(_of_code(project, what), form)
        return
    names = [name.strip() for name in metrics.split(",") if name.strip()]
    show(_report(project, what, names, shares=shares), form)


def _of_code(project: Project, what: Sequence[str]) -> Report:
    from pytest_gpuperf.compare.choosing import choose_all
    from pytest_gpuperf.compare.instructions import compare_instructions
    from pytest_gpuperf.measure.identity.kept_code import find_code
    from pytest_gpuperf.measure.static.cubin import find_tool
    from pytest_gpuperf.report.comparison_report import comparison_report
    from pytest_gpuperf.report.rows import source_lines

    choices = [choice for ref in what for choice in choose_all(ref, project.load_all)]
    found = compare_instructions(choices, partial(find_code, project.runs.folder), find_tool("nvdisasm"))
    return comparison_report(found, source_lines(choice.run for choice in choices))


def _report(project: Project, what: Sequence[str], names: Sequence[str], *, shares: bool) -> Report:
    """Return the comparison."""
    from pytest_gpuperf.compare.choosing import choose_all
    from pytest_gpuperf.compare.measurements import compare_measurements
    from pytest_gpuperf.report.comparison_report import comparison_report
    from pytest_gpuperf.report.rows import source_lines

    load = cache(project.load_all)  # a run is often named twice, with two tests
    choices = [choice for ref in what for choice in choose_all(ref, load)]
    source = source_lines(choice.run for choice in choices)
    return comparison_report(compare_measurements(choices, names), source, shares=shares)
