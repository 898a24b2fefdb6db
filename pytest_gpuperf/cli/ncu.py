"""`gpuperf ncu`: what is in a file that Nsight Compute wrote, or in two of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from pytest_gpuperf.cli.output import terminal
from pytest_gpuperf.metrics import METRICS
from pytest_gpuperf.metrics.presets import PRESETS
from pytest_gpuperf.records.change import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_gpuperf.measure.ncu.report_file import ReportKernel


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--kernel", metavar="REGEX", help="Only kernels in whose function or demangled name this is found."
)
@click.option(
    "--preset",
    type=click.Choice([*PRESETS, "all"]),
    help="A table of these metrics, a column for each launch (default: a line for each launch; in JSON and "
    "CSV all metrics).",
)
@click.option(
    "--metric", "metrics", metavar="NAME", multiple=True, help="Add a metric, by short or raw ncu name."
)
@click.option(
    "--compare",
    "other",
    metavar="OTHER",
    type=click.Path(path_type=Path),
    help="Show what has changed since OTHER.",
)
@click.option(
    "--rules",
    type=click.Choice(["top", "all", "none"]),
    default="top",
    show_default=True,
    help="ncu's own rules below the table: of each launch the three with the largest estimated speedups, all "
    "in full, or none.",
)
@click.option("--json", "as_json", is_flag=True, help="Print a list of kernels as JSON.")
@click.option("--csv", "as_csv", is_flag=True, help="Print a row for each launch as CSV.")
def ncu(
    file: Path,
    kernel: str | None,
    preset: str | None,
    metrics: tuple[str, ...],
    other: Path | None,
    rules: str,
    as_json: bool,
    as_csv: bool,
) -> None:
    """Show the kernels in FILE.

    FILE is a report of Nsight Compute (.ncu-rep), its raw page as CSV, or any other CSV of ncu's, gzipped or
    not. Neither a GPU nor ncu is needed; for a report the package ncu-report is, or an installation of ncu.
    """
    from pytest_gpuperf.measure.ncu.report_file import read_report

    if as_json and as_csv:
        raise click.UsageError("--json and --csv exclude each other")
    kernels = read_report(file, kernel, metrics=metrics)
    before = None if other is None else read_report(other, kernel, metrics=metrics)
    names = _names(preset, metrics, [*kernels, *(before or ())])
    if as_json or as_csv:
        from pytest_gpuperf.report import kernel_data as data

        if before is None:
            text = data.as_json(kernels, names) if as_json else data.as_csv(kernels, names)
        elif as_json:
            text = data.comparison_as_json(before, kernels, names)
        else:
            text = data.comparison_as_csv(before, kernels, names)
        click.echo(text, nl=False)
        return
    width, colour = terminal()
    if before is None:
        lines = _tables(kernels, preset, metrics, names, width, colour)
        if rules != "none":
            from pytest_gpuperf.report.rule_list import rule_lines

            of_rules = rule_lines(kernels, everything=rules == "all", width=width)
            lines += ["", *of_rules] if of_rules else []
    else:
        from pytest_gpuperf.report.kernel_comparison import comparison_lines

        lines = [printable(f"old: {other}"), printable(f"new: {file}"), ""]
        lines += comparison_lines(
            before, kernels, names, everything=preset is not None, width=width, colour=colour
        )
    click.echo("\n".join(lines))


def _tables(
    kernels: Sequence[ReportKernel],
    preset: str | None,
    metrics: Sequence[str],
    names: Sequence[str],
    width: int,
    colour: bool,
) -> list[str]:
    from pytest_gpuperf.report.kernel_table import metric_lines, overview_lines

    if preset is not None:
        return metric_lines(kernels, names, width=width, colour=colour)
    lines = overview_lines(kernels, width=width, colour=colour)
    if metrics:
        lines += ["", *metric_lines(kernels, metrics, width=width, colour=colour)]
    return lines


def _names(preset: str | None, metrics: Sequence[str], kernels: Sequence[ReportKernel]) -> list[str]:
    """What is shown, in the catalogue's order, what was asked for by name at the end."""
    chosen = METRICS if preset in (None, "all") else PRESETS[preset or ""]
    known = {name for kernel in kernels for name in kernel.metrics}
    return [*dict.fromkeys([*(name for name in chosen if name in known), *metrics])]
