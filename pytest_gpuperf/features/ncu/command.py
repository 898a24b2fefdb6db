"""`gpuperf ncu`: the kernels in a file that Nsight Compute wrote, or the changes between two files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pytest_gpuperf.cli.output import output_form, show
from pytest_gpuperf.metrics import METRICS
from pytest_gpuperf.metrics.presets import PRESETS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_gpuperf.features.ncu.report_file import ReportKernel


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
@click.option("--each", is_flag=True, help="Show identical launches one by one.")
@output_form
def command(
    file: Path,
    kernel: str | None,
    preset: str | None,
    metrics: tuple[str, ...],
    other: Path | None,
    rules: str,
    each: bool,
    form: str,
) -> None:
    """Show the kernels in FILE.

    FILE is a report of Nsight Compute (.ncu-rep) or a CSV from ncu, gzipped or not. Identical launches share
    a row. Needs neither a GPU nor ncu; a report needs the package ncu-report or an installation of ncu.
    """
    from pytest_gpuperf.features.compare.report import movers_report
    from pytest_gpuperf.features.ncu.comparison import compare_kernels
    from pytest_gpuperf.features.ncu.launch_tables import (
        OVERVIEW,
        header_lines,
        header_table,
        metric_tables,
        ncu_file_report,
        overview_table,
        rule_table,
    )
    from pytest_gpuperf.features.ncu.report_file import read_file

    everything = preset is None and form in ("csv", "json")
    found = read_file(file, kernel, metrics=metrics, everything=everything)
    kernels = found.kernels
    if other is not None:
        before = read_file(other, kernel, metrics=metrics, everything=everything)
        names = _names(preset, metrics, [*kernels, *before.kernels])
        comparison = compare_kernels(before.kernels, kernels, names, (str(other), str(file)))
        notes = [f"{title}: {note}" for title, one in (("old", before), ("new", found)) for note in one.notes]
        if before.ncu_version and found.ncu_version and before.ncu_version != found.ncu_version:
            notes.append(f"other versions of ncu: {before.ncu_version} and {found.ncu_version}")
        comparison = replace(comparison, notes=(*comparison.notes, *notes))
        source = [
            ", ".join([f"{title}: {path}", *header_lines(one)])
            for title, path, one in (("old", other, before), ("new", file, found))
        ]
        show(movers_report(comparison, source, everything=preset is not None), form)
        return
    names = _names(preset, metrics, kernels)
    asked = names if preset is not None else metrics
    tables = [header_table(found, OVERVIEW.union(metrics) if preset is None else asked)]
    tables += [overview_table(kernels, each=each)] if preset is None else []
    tables += metric_tables(kernels, asked, each=each) if preset is not None or metrics else []
    tables += [rule_table(kernels, everything=rules == "all", each=each)] if rules != "none" else []
    show(ncu_file_report(found, names, tables), form)


def _names(preset: str | None, metrics: Sequence[str], kernels: Sequence[ReportKernel]) -> list[str]:
    """Return the metrics to show, in the catalogue's order, then others by name and in the file's order."""
    chosen = METRICS if preset in (None, "all") else PRESETS[preset or ""]
    known = dict.fromkeys(name for kernel in kernels for name in kernel.metrics)
    others = [name for name in known if name not in METRICS] if preset is None else []
    return [*dict.fromkeys([*(name for name in chosen if name in known), *metrics, *others])]
