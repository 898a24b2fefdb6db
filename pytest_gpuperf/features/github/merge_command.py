"""`gpuperf merge`: join runs of several GPU models or shards."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from pytest_gpuperf.cli.output import FORCE, USE_FORCE, echo, write
from pytest_gpuperf.cli.project import Project, count_tests, project_options
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.records.file_kinds import type_of
from pytest_gpuperf.records.json_files import show_path
from pytest_gpuperf.records.merging import merge_runs
from pytest_gpuperf.records.runs import RUN_FILES, RUN_ID, encode_run, file_of_run, load_run
from pytest_gpuperf.report.own_files import refuse_other_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pytest_gpuperf.records import Run, TestRecord


@click.command("merge")
@click.argument("runs", nargs=-1, required=True)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    help="Write a folder with a folder for each GPU.",
)
@FORCE
@project_options
def command(project: Project, runs: tuple[str, ...], output: Path, force: bool) -> None:
    """Join RUNS of several GPU models or shards into one.

    A run is an id, the start of an id, a run.json, or its folder. Runs of the same model, versions and commit
    become one. The other commands take the result as RUN. Refused if the runs are of several commits, or if a
    model of GPU measured a test twice.
    """
    paths = list(dict.fromkeys(path for ref in runs for path in project.find_all(ref)))
    loaded = [load_run(path) for path in paths]
    merged = merge_runs(loaded)
    targets = _targets(output, merged.runs)
    files = {target: encode_run(run) for target, run in targets.items()}
    _refuse_to_overwrite(targets, paths, force=force)
    target_of = {_key(run, test): target for target, run in targets.items() for test in run.tests}
    for path, run in zip(paths, loaded, strict=True):
        for test in run.tests:
            for name in _traces(test):
                if (trace := file_of_run(path, name)).is_file():
                    files[file_of_run(target_of[_key(run, test)], name)] = trace.read_bytes()
    write(files, *(f"wrote {show_path(to)} ({count_tests(run.tests)})" for to, run in targets.items()))
    for note in merged.notes:
        echo(note)


def _targets(output: Path, runs: Sequence[Run]) -> dict[Path, Run]:
    """Return the path of each run.

    Raises:
        GpuperfError: Something else is in the folder.
    """
    targets: dict[Path, Run] = {}
    for run in runs:
        slug = run.environment.gpu.slug
        number = sum(other.environment.gpu.slug == slug for other in targets.values()) + 1
        targets[output / (slug if number == 1 else f"{slug}-{number}") / RUN_FILES[0]] = run
    _refuse_others(output, targets)
    return targets


def _refuse_others(folder: Path, targets: dict[Path, Run]) -> None:
    """Refuse a folder with runs that would seem to belong to the new ones."""
    if type_of(folder) != "folder":
        return
    for path in folder.iterdir():
        if path / RUN_FILES[0] not in targets and (
            path.name in RUN_FILES
            or RUN_ID.fullmatch(path.name)
            or any((path / name).exists() for name in RUN_FILES)
        ):
            raise GpuperfError(
                f"{show_path(folder)} has another run: {show_path(path)}",
                expected="a new folder, or that of an earlier merge of the same GPUs",
                next_step="name another folder",
            )


def _refuse_to_overwrite(targets: Iterable[Path], sources: Sequence[Path], *, force: bool) -> None:
    """Refuse to replace a run that is a part of the result, and files of others."""
    parts = {source.resolve() for source in sources}
    for target in targets:
        if target.resolve() in parts:
            raise GpuperfError(f"{show_path(target)} is one of the runs", next_step="name another -o")
        if not force:
            refuse_other_file(target, USE_FORCE)


def _key(run: Run, test: TestRecord) -> tuple[str, str]:
    return run.environment.gpu.slug, test.nodeid


def _traces(test: TestRecord) -> Iterator[str]:
    for measurement in test.measurements.values():
        if measurement.trace is not None and measurement.trace.file:
            yield measurement.trace.file
