"""`gpuperf plot`: draw tests over one of their parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pytest_gpuperf.cli.output import output_file, write
from pytest_gpuperf.cli.project import Project, project_options
from pytest_gpuperf.records.files import show_path

if TYPE_CHECKING:
    from pathlib import Path


@click.command("plot")
@click.argument("what", metavar="A [B …]", nargs=-1, required=True)
@click.option(
    "--x",
    metavar="NAME",
    help="Choose the parameter of the x axis: by its name if the ids have one (N of N4096), otherwise by its "
    "place in the ids, 1 for the first (default: the only number that differs; NAME is then its title).",
)
@click.option(
    "--y",
    metavar="METRIC",
    help="Choose the metric of the y axis, by short or raw name (default: gb_per_s, otherwise tflop_per_s, "
    "otherwise time_us).",
)
@output_file("-o", "--output", required=True, help="Write to this file: plot.svg.")
@project_options
def command(
    project: Project,
    what: tuple[str, ...],
    x: str | None,
    y: str | None,
    output: Path,
) -> None:
    """Draw tests over one of their parameters.

    There is a line for each function, label and other parameter. A and B are runs or tests, as
    `gpuperf compare` takes them.
    """
    from pytest_gpuperf.features.compare.curve_picture import picture_of_curves
    from pytest_gpuperf.features.compare.curves import curves_of
    from pytest_gpuperf.features.compare.report import source_lines
    from pytest_gpuperf.features.compare.selectors import choose_all
    from pytest_gpuperf.features.page.picture_file import draw
    from pytest_gpuperf.report.rows import split_names

    choices = [choice for ref in what for choice in choose_all(ref, project.load_all)]
    curves = curves_of(choices, x=x, y=y)
    runs = [choice.run for choice in choices if choice.run.id in curves.runs]
    common, _ = split_names([entry.test.nodeid for choice in choices for entry in choice.entries])
    picture = picture_of_curves(
        curves,
        gpus=[run.environment.gpu for run in runs],
        title=common,
        source=source_lines(runs),
    )
    points = sum(len(curve.points) for curve in curves.curves)
    left_out = f"left out, because they failed: {', '.join(curves.left_out)}"
    size = f"{len(curves.curves)} lines, {points} points"
    write(
        {output: draw(picture, output)},
        *[left_out] * bool(curves.left_out),
        f"wrote {show_path(output)} ({size})",
    )
