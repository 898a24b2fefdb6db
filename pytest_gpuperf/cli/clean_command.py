"""`gpuperf clean`: remove old runs, reports and logs."""

from __future__ import annotations

from typing import Any

import click

from pytest_gpuperf.cli.output import output_form, show
from pytest_gpuperf.cli.project import Project, project_options
from pytest_gpuperf.records.json_files import show_path
from pytest_gpuperf.records.pruning import REPORTS_KEPT, find_old
from pytest_gpuperf.records.runs import STATE_FOLDER
from pytest_gpuperf.report.show import count, show_size
from pytest_gpuperf.report.table import Column, Report, Table


@click.command("clean")
@click.option(
    "--keep",
    type=click.IntRange(min=0),
    metavar="N",
    help="Keep the newest N runs; 0 keeps all (default: gpuperf_keep of pytest's configuration).",
)
@click.option("--dry-run", is_flag=True, help="Show what would be removed.")
@output_form
@project_options
def command(project: Project, keep: int | None, dry_run: bool, form: str) -> None:
    """Remove old runs, reports and logs.

    Only files that this tool made are removed.
    """
    old = find_old(project.root / STATE_FOLDER, project.keep if keep is None else keep)
    rows: list[dict[str, Any]] = []
    for one in old:
        size_bytes = one.size_bytes
        if not dry_run:
            one.remove()
        folder, files = show_path(one.folder), len(one.files)
        rows.append({"folder": folder, "run": one.is_run, "files": files, "size_bytes": size_bytes})
    show(
        _report({"dry_run": dry_run, "removed": rows, "size_bytes": sum(row["size_bytes"] for row in rows)}),
        form,
    )


def _report(found: dict[str, Any]) -> Report:
    rows = found["removed"]
    done = "would remove" if found["dry_run"] else "removed"
    columns = [
        Column("", [f"{done} {row['folder']}" for row in rows], "name"),
        Column(
            "", ["the whole run" if row["run"] else count(row["files"], "file") for row in rows], left=True
        ),
        Column("", [show_size(row["size_bytes"]) for row in rows]),
    ]
    runs = sum(row["run"] for row in rows)
    note = f"{done} {count(runs, 'run')}, and reports of others; together {show_size(found['size_bytes'])}"
    notes = [note if rows else f"nothing to remove: reports of the newest {REPORTS_KEPT} runs stay"]
    return Report([Table(columns if rows else (), notes=notes)], rows, found)
