"""`gpuperf merge`: join runs of several GPU models or shards."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from pytest_gpuperf.cli.output import echo, write
from pytest_gpuperf.cli.project import Project, count_tests, project_options
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.features.github.merging import merge_runs
from pytest_gpuperf.records.file_kind_detection import type_of
from pytest_gpuperf.records.files import show_path
from pytest_gpuperf.records.run_store import RUN_FILES, encode_run, file_of_run, load_run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_gpuperf.records import Run, TestRecord


@click.command("merge")
@click.argument("runs", nargs=-1, required=True)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    help="Write this new folder, with a folder for each GPU.",
)
@project_options
def command(project: Project, runs: tuple[str, ...], output: Path) -> None:
    """Join RUNS of several GPU models or shards into one.

    A run is an id, the start of an id, a run.json, or its folder. Runs of the same model, versions and commit
    become one. The other commands take the result as RUN. Refused if the runs are of several commits, or if a
    model of GPU measured a test twice, or if the folder has files.
    """
    if type_of(output) == "file" or (output.is_dir() and any(output.iterdir())):
        raise GpuperfError(
            f"{show_path(output)} is there, with files that would be mixed with the new ones",
            expected="a new or empty folder",
            next_step="name another -o",
        )
    paths = list(dict.fromkeys(path for ref in runs for path in project.find_all(ref)))
    loaded = [load_run(path) for path in paths]
    merged = merge_runs(loaded)
    targets = _targets(output, merged.runs)
    files = {target: encode_run(run) for target, run in targets.items()}
    target_of = {_key(run, test): target for target, run in targets.items() for test in run.tests}
    for path, run in zip(paths, loaded, strict=True):
        for test in run.tests:
            for name in test.trace_files:
                if (trace := file_of_run(path, name)).is_file():
                    files[file_of_run(target_of[_key(run, test)], name)] = trace.read_bytes()
    write(files, *(f"wrote {show_path(to)} ({count_tests(run.tests)})" for to, run in targets.items()))
    for note in merged.notes:
        echo(note)


def _targets(output: Path, runs: Sequence[Run]) -> dict[Path, Run]:
    """Return the path of each run."""
    targets: dict[Path, Run] = {}
    for run in runs:
        slug = run.environment.gpu.slug
        number = sum(other.environment.gpu.slug == slug for other in targets.values()) + 1
        targets[output / (slug if number == 1 else f"{slug}-{number}") / RUN_FILES[0]] = run
    return targets


def _key(run: Run, test: TestRecord) -> tuple[str, str]:
    return run.environment.gpu.slug, test.nodeid
