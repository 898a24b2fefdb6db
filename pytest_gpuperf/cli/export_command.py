"""`gpuperf export`: write a run as a file for other tools."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

import click

from pytest_gpuperf.cli.output import OUTPUT_FILE, write
from pytest_gpuperf.cli.project import Project, count_tests, project_options
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.records.json_files import show_path
from pytest_gpuperf.report.frame import to_frame

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from pytest_gpuperf.records import Run


def _csv(run: Run) -> bytes:
    return to_frame(run).to_csv(index=False, lineterminator="\n").encode()


def _json(run: Run) -> bytes:
    # pandas writes at most fifteen digits.
    text = to_frame(run).to_json(orient="records", date_format="iso", double_precision=15, indent=1)
    return text.encode() + b"\n"


def _parquet(run: Run) -> bytes:
    if importlib.util.find_spec("pyarrow") is None:
        raise GpuperfError("parquet needs pyarrow, which is not installed", next_step="pip install pyarrow")
    return to_frame(run).to_parquet(index=False, engine="pyarrow")


def _pytest_benchmark(run: Run) -> bytes:
    from pytest_gpuperf.report.pytest_benchmark import to_pytest_benchmark

    return to_pytest_benchmark(run)


_FORMATS: Mapping[str, Callable[[Run], bytes]] = {
    "csv": _csv,
    "json": _json,
    "parquet": _parquet,
    "pytest-benchmark": _pytest_benchmark,
}


@click.command("export")
@click.argument("run", required=False)
@click.option(
    "--format",
    "format_name",
    type=click.Choice(list(_FORMATS)),
    required=True,
    help="Choose a table with a row for each test, label, kernel and metric (csv, json, parquet), or the "
    "times for `pytest-benchmark compare` (pytest-benchmark).",
)
@click.option(
    "-o",
    "--output",
    type=OUTPUT_FILE,
    help="Write to a file (default: standard output; parquet needs a file).",
)
@project_options
def command(project: Project, run: str | None, format_name: str, output: Path | None) -> None:
    """Write RUN in a format for other tools.

    RUN is an id, the start of an id, a run.json, or its folder; the newest run by default.
    """
    if format_name == "parquet" and output is None:
        raise GpuperfError("parquet is binary", expected="a file to write", next_step="add -o FILE")
    measured = project.load(run)
    data = _FORMATS[format_name](measured)
    if output is None:
        click.echo(data, nl=False)
        return
    write({output: data}, f"wrote {show_path(output)} ({count_tests(measured.tests)})")
