"""`gpuperf init`: add the files that a repository needs to test its kernels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from pytest_gpuperf.cli.init.matrix import MOST_SHARDS, labels_of
from pytest_gpuperf.cli.output import echo
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.records.json_files import show_path
from pytest_gpuperf.records.writing import write_files

if TYPE_CHECKING:
    from pytest_gpuperf.cli.init.piece import Piece

NEXT = """
Next, on a machine with a GPU:
  gpuperf doctor                              is it ready to measure?
  pytest --gpuperf perf --gpuperf-update=new  measure, and make that the baseline
  gpuperf recording add                       let machines without a GPU replay it
Commit the new files in baselines/, then the workflows: replay.yml fails without a
recording. From then on, with or without a GPU:
  pytest --gpuperf perf"""


@click.command("init")
@click.argument(
    "folder",
    metavar="[DIR]",
    default=".",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
)
@click.option("--agents", is_flag=True, help="Write only a skill file for coding agents.")
@click.option(
    "--gpus", default="", metavar="LABELS", help="Measure on the runners with these labels: h100,h200."
)
@click.option(
    "--shards",
    type=click.IntRange(1, MOST_SHARDS),
    default=1,
    help="Divide the suite into this many jobs for each model of GPU.",
)
def command(folder: Path, agents: bool, gpus: str, shards: int) -> None:
    """Write a suite, a tox environment and workflows into DIR.

    DIR is the top of an existing project, the working directory by default. Existing files stay: files that
    differ are kept, and the tox configuration and .gitignore are extended. A second call writes only missing
    files.
    """
    from pytest_gpuperf.cli.init.plan import git_top, plan, plan_skills

    root = folder.resolve()
    pieces = plan_skills(root) if agents else plan(root, labels_of(gpus) if gpus else (), shards)
    news = {piece.path: piece.path.exists() for piece in pieces if piece.text is not None}
    try:
        write_files({piece.path: piece.text.encode() for piece in pieces if piece.text is not None})
    except OSError as error:
        raise GpuperfError(
            f"nothing was written: {error}", expected=f"a folder to write to in {show_path(root)}"
        ) from None
    for piece in pieces:
        _show(piece, "kept" if piece.text is None else "added to" if news[piece.path] else "wrote")
    if agents:
        return
    if git_top(root) is None:
        echo("not in a git repository: type `git init`, because baselines have to be committed")
    if news:
        for line in NEXT.splitlines():
            echo(line)
    elif not any(piece.by_hand for piece in pieces):
        echo("nothing to write: every file is there")


def _show(piece: Piece, done: str) -> None:
    echo(f"{done:<8}  {show_path(piece.path)}: {piece.said}")
    if piece.by_hand:
        for line in piece.by_hand.splitlines():
            echo(f"    {line}")
