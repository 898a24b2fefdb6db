"""`gpuperf break-even`: find the size at which a change breaks even."""

from __future__ import annotations

import click

from pytest_gpuperf.cli.output import output_form, show
from pytest_gpuperf.cli.project import Project, project_options


@click.command("break-even")
@click.argument("without")
@click.argument("with_", metavar="WITH")
@click.option(
    "--x",
    metavar="NAME",
    help="Choose the parameter that is the size: by its name if the ids have one (N of N4096), otherwise by "
    "its place in the ids, 1 for the first (default: the only number that differs).",
)
@click.option(
    "--launch",
    metavar="COST",
    help="Set the cost of a launch: host (the least of host time over launches), graph (from a graph's node "
    "to the next), or microseconds (default: host if times come from the host's clock and not all calls are "
    "graphs, otherwise graph).",
)
@output_form
@project_options
def command(project: Project, without: str, with_: str, x: str | None, launch: str | None, form: str) -> None:
    """Find the size at which a change breaks even.

    The change saves GPU time and adds launches.

    WITHOUT and WITH name tests without and with the change, as `gpuperf compare` takes them: RUN::TEST, or
    tests of the newest run. Their names differ in one part: the function, the label or one parameter.
    """
    from pytest_gpuperf.compare.choosing import choose
    from pytest_gpuperf.compare.launch_cost import find
    from pytest_gpuperf.report.break_even_report import break_even_report
    from pytest_gpuperf.report.rows import source_lines

    choices = [choose(ref, project.load) for ref in (without, with_)]
    found = find(choices[0], choices[1], x=x, launch=launch)
    show(break_even_report(found, source_lines(choice.run for choice in choices)), form)
