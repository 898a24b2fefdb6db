"""`gpuperf compare`: runs, tests or parametrizations side by side."""

from __future__ import annotations

import click

from pytest_gpuperf.cli.output import output_format, source_lines, terminal
from pytest_gpuperf.cli.project import Project, project_options


@click.command()
@click.argument("what", metavar="A [B …]", nargs=-1, required=True)
@click.option(
    "--metrics",
    metavar="NAMES",
    default="",
    help="The rows, separated by commas: metrics by short or raw name, presets, or all (default: times, "
    "launches, speed of light, occupancy, registers, hit rates and the largest stalls).",
)
@click.option(
    "--shares",
    is_flag=True,
    help="Show what share of the first a value is, 97.4 %, in place of the change, -2.6 %.",
)
@output_format
@project_options
def compare(project: Project, what: tuple[str, ...], metrics: str, shares: bool, form: str | None) -> None:
    """Show measurements side by side, with the changes against the first.

    A and B are runs (an id, the start of one, a run.json, a folder that holds one, or latest), tests of a
    run as RUN::TEST, or tests of the newest run: a node id, or ::TEST. TEST is a node id with or without
    its parameters, or a part of names. One test with parameters or labels is compared with itself.
    """
    from pytest_gpuperf.compare import side_by_side
    from pytest_gpuperf.compare.choosing import choose
    from pytest_gpuperf.report import side_by_side as report

    choices = [choose(ref, project.load) for ref in what]
    names = [name.strip() for name in metrics.split(",") if name.strip()]
    table = side_by_side.compare(choices, names)
    source = source_lines(choice.run for choice in choices)
    if form == "json":
        text = report.as_json(table)
    elif form == "csv":
        text = report.as_csv(table)
    elif form == "markdown":
        text = report.as_markdown(table, source, shares=shares)
    else:
        width, colour = terminal()
        text = report.as_text(table, source, width=width, colour=colour, shares=shares)
    click.echo(text, nl=False)
