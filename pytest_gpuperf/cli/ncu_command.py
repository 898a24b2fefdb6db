"""`gpuperf ncu`: the kernels in a file that Nsight Compute wrote, or the changes between two files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from pytest_gpuperf.cli.output import output_form, show
from pytest_gpuperf.metrics import METRICS
from pytest_gpuperf.metrics.presets import PRESETS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_gpuperf.measure.ncu.report_file import ReportKernel


@click.command("ncu")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--kernel", metavar="REGEX", help="Show only kernels with this regex in their function or demangled name."
)
@click.option(
    "--preset",
    type=click.Choice([*PRESETS, "all"]),
    help="Show a table of these metrics with a column for each launch (default: a line for each launch; in "
    "JSON and CSV all metrics).",
)
@click.option(
    "--metric", "metrics", metavar="NAME", multiple=True, help="Add a metric, by short or raw ncu name."
)
@click.option(
    "--compare",
    "other",
    metavar="OTHER",
    type=click.Path(path_type=Path),
    help="Show the changes since OTHER.",
)
@click.option(
    "--rules",
    type=click.Choice(["top", "all", "none"]),
    default="top",
    show_default=True,
    help="Show ncu's own rules below the table: the three of each launch with the largest estimated "
    "speedups, all in full, or none.",
)
@output_form
def command(
    file: Path,
    kernel: str | None,
    preset: str | None,
    metrics: tuple[str, ...],
    other: Path | None,
    rules: str,
    form: str,
) -> None:
    """Show the kernels in FILE.

    FILE is a report of Nsight Compute (.ncu-rep), its raw page as CSV, or any other CSV from ncu, gzipped or
    not. Needs neither a GPU nor ncu; a report needs the package ncu-report or an installation of ncu.
    """
    from pytest_gpuperf.compare.kernels import compare_kernels
    from pytest_gpuperf.measure.ncu.report_file import read_report
    from pytest_gpuperf.report.comparison_report import movers_report
    from pytest_gpuperf.report.ncu_file_report import (
        metric_tables,
        ncu_file_report,
        overview_table,
        rule_table,
    )

    kernels = read_report(file, kernel, metrics=metrics)
    before = None if other is None else read_report(other, kernel, metrics=metrics)
    names = _names(preset, metrics, [*kernels, *(before or ())])
    if before is not None:
        comparison = compare_kernels(before, kernels, names, (str(other), str(file)))
        source = [f"old: {other}", f"new: {file}"]
        show(movers_report(comparison, source, everything=preset is not None), form)
        return
    asked = names if preset is not None else metrics
    tables = [overview_table(kernels)] if preset is None else []
    tables += metric_tables(kernels, asked) if preset is not None or metrics else []
    tables += [rule_table(kernels, everything=rules == "all")] if rules != "none" else []
    show(ncu_file_report(kernels, names, tables), form)


def _names(preset: str | None, metrics: Sequence[str], kernels: Sequence[ReportKernel]) -> list[str]:
    """Return the metrics to show, in the catalogue's order, then those that were asked for by name."""
    chosen = METRICS if preset in (None, "all") else PRESETS[preset or ""]
    known = {name for kernel in kernels for name in kernel.metrics}
    return [*dict.fromkeys([*(name for name in chosen if name in known), *metrics])]
