"""`gpuperf export`: write a run as a file for other tools."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pytest_gpuperf.cli.output import echo_data, output_file, write
from pytest_gpuperf.cli.project import Project, count_tests, project_options
from pytest_gpuperf.features.export.file_schemas import FILES, shown
from pytest_gpuperf.features.export.row_files import to_csv, to_json
from pytest_gpuperf.records.files import show_path

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path


_FORMATS: Mapping[str, Callable[..., bytes]] = {"csv": to_csv, "json": to_json}


@click.command("export")
@click.argument("run", required=False)
@click.option(
    "--format",
    "format_name",
    type=click.Choice(list(_FORMATS)),
    help="Write a table with a row for each test, label, kernel and metric.",
)
@output_file("-o", "--output", help="Write to a file (default: standard output).")
@click.option("--schema", type=click.Choice(list(FILES)), help="Print the JSON schema of a file instead.")
@project_options
def command(
    project: Project, run: str | None, format_name: str | None, output: Path | None, schema: str | None
) -> None:
    """Write RUN in a format for other tools.

    RUN is an id, the start of an id, a run.json, its folder, or what `gpuperf merge` wrote; the newest run by
    default.
    """
    if schema is not None:
        if run or format_name or output:
            raise click.UsageError("--schema excludes RUN, --format and --output.")
        echo_data(shown(schema), is_raw=False)
        return
    if format_name is None:
        raise click.UsageError("Missing option '--format' or '--schema'.")
    runs = project.load_all(run)
    content = _FORMATS[format_name](*runs)
    if output is None:
        echo_data(content.decode(), is_raw=format_name == "csv")
        return
    write(
        {output: content},
        f"wrote {show_path(output)} ({count_tests([test for one in runs for test in one.tests])})",
    )
