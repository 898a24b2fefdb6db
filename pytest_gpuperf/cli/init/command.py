"""`gpuperf init`: what a repository needs to have its kernels tested, beside what it has."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from pytest_gpuperf.cli.project import echo
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.records.json_files import show_path, write_files

if TYPE_CHECKING:
    from pytest_gpuperf.cli.init.piece import Piece

NEXT = """
Next, on a machine with a GPU:
  gpuperf doctor                              is it ready to measure?
  pytest --gpuperf perf --gpuperf-update=new  measure, and make that the baseline
  gpuperf recording add                       what machines without a GPU replay
Commit what these write into baselines/, and the workflows not before: replay.yml
fails as long as there is no recording. From then on, with a GPU or without:
  pytest --gpuperf perf"""


@click.command("init")
@click.argument(
    "folder",
    metavar="[DIR]",
    default=".",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
)
def command(folder: Path) -> None:
    """Write a small suite, a tox environment and workflows into the project in DIR.

    DIR is the top of an existing project, the working directory if left out. What is there stays as it is:
    files that differ are kept, and tox and git's list of ignored files are added to. Typed again, it writes
    only what is missing.
    """
    from pytest_gpuperf.cli.init.plan import git_top, plan

    root = folder.resolve()
    pieces = plan(root)
    news = {piece.path: piece.path.exists() for piece in pieces if piece.text is not None}
    try:
        # What is a link stays one.
        write_files({piece.path.resolve(): piece.text.encode() for piece in pieces if piece.text is not None})
    except OSError as error:
        raise GpuperfError(
            f"nothing was written: {error}", expected=f"a folder to write to in {show_path(root)}"
        ) from None
    for piece in pieces:
        _show(piece, "kept" if piece.text is None else "added to" if news[piece.path] else "wrote")
    if git_top(root) is None:
        echo("not in a git repository: baselines are to be committed, so type `git init`")
    if news:
        click.echo(NEXT)
    elif not any(piece.by_hand for piece in pieces):
        echo("nothing to write: all of it is there")


def _show(piece: Piece, done: str) -> None:
    echo(f"{done:<8}  {show_path(piece.path)}: {piece.said}")
    if piece.by_hand:
        click.echo("".join(f"    {line}\n" for line in piece.by_hand.splitlines()), nl=False)
