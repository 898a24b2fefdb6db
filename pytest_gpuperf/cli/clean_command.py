"""`gpuperf clean`: remove old runs, reports and logs."""

from __future__ import annotations

import click

from pytest_gpuperf.cli.project import Project, echo, project_options
from pytest_gpuperf.records.json_files import show_path
from pytest_gpuperf.records.pruning import REPORTS_KEPT, find_old
from pytest_gpuperf.records.runs import STATE_FOLDER
from pytest_gpuperf.report.show import count, show_size


@click.command("clean")
@click.option(
    "--keep",
    type=click.IntRange(min=0),
    metavar="N",
    help="Keep the newest N runs; 0 keeps all (default: gpuperf_keep of pytest's configuration).",
)
@click.option("--dry-run", is_flag=True, help="Show what would be removed.")
@project_options
def command(project: Project, keep: int | None, dry_run: bool) -> None:
    """Remove old runs, reports and logs."""
    old = find_old(project.root / STATE_FOLDER, project.keep if keep is None else keep)
    done = "would remove" if dry_run else "removed"
    size_bytes = 0
    for one in old:
        size_bytes += (size := one.size_bytes)
        if not dry_run:
            one.remove()
        what = "" if one.is_run else f", {count(len(one.files), 'file')}"
        echo(f"{done} {show_path(one.folder)}{what} ({show_size(size)})")
    if old:
        runs = sum(one.is_run for one in old)
        echo(f"{done} {count(runs, 'run')}, and reports of others; together {show_size(size_bytes)}")
    else:
        echo(f"nothing to remove: reports of the newest {REPORTS_KEPT} runs stay")
