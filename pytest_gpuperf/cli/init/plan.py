"""The files that a repository lacks to test its kernels."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

from pytest_gpuperf.cli.init.matrix import for_gpus, with_shards
from pytest_gpuperf.cli.init.piece import Piece, new_file, read
from pytest_gpuperf.cli.init.tox_environment import tox_environment
from pytest_gpuperf.records.json_files import show_path
from pytest_gpuperf.records.runs import STATE_FOLDER

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

SUITE = "perf"
EXAMPLE = "test_perf_example.py"
"""A rare name: pytest cannot import two test files with the same name from plain folders."""
CONFTEST = "conftest.py"
MEASURES = "gpuperf.yml"
WORKFLOWS = {
    MEASURES: "measures on your runner with a GPU",
    "against.yml": "compares old and new code, if a label asks for it",
    "comment.yml": "comments on the pull request, without its code",
    "replay.yml": "judges the recording again on a hosted runner",
}


SKILL = "SKILL.md"
SKILLS = {
    ".agents/skills/gpuperf": "for Codex, Copilot, Cursor, Gemini CLI and others",
    ".claude/skills/gpuperf": "for Claude Code, which reads no other folder",
}
"""Folders of the skill, which has one form for all agents (https://agentskills.io/specification)."""


def plan_skills(root: Path) -> list[Piece]:
    """Plan the skill files for coding agents; nothing is written yet.

    Args:
        root: The top of the project.

    Raises:
        GpuperfError: A file with one of these names cannot be read, or is not text.
    """
    return [new_file(root / folder / SKILL, packaged(SKILL), what) for folder, what in SKILLS.items()]


def plan(root: Path, labels: Sequence[str] = (), shards: int = 1) -> list[Piece]:
    """Plan the change to each file; nothing is written yet.

    Args:
        root: The top of the project.
        labels: Labels of the runners, one for each model of GPU; empty for one model.
        shards: Parts of the suite that are measured apart.

    Raises:
        GpuperfError: A file that needs an addition is broken.
    """
    return [*_suite(root), tox_environment(root, SUITE), *_workflows(root, labels, shards), _gitignore(root)]


def git_top(folder: Path) -> Path | None:
    """Return the top of the repository of a folder; None if it is in no repository."""
    # In a worktree or a submodule .git is a file.
    return next((path for path in (folder, *folder.parents) if (path / ".git").exists()), None)


def packaged(name: str) -> str:
    """Return the text of a file in the package."""
    return (files("pytest_gpuperf.cli.init") / "files" / name).read_text(encoding="utf-8")


def _suite(root: Path) -> list[Piece]:
    folder = root / SUITE
    others = sorted(path for path in folder.glob("test_*.py") if path.name != EXAMPLE)
    if others and not (folder / EXAMPLE).exists():
        # A suite of the project may not need the plugin or torch, so it is collected as before.
        return [Piece(others[0], "your suite is there, so no example is needed")]
    news = {
        EXAMPLE: "a suite to put your kernels into",
        CONFTEST: "leaves it out if the plugin or torch is missing",
    }
    return [new_file(folder / name, packaged(f"{name}.txt"), what) for name, what in news.items()]


def _workflows(root: Path, labels: Sequence[str], shards: int) -> list[Piece]:
    folder = root / ".github" / "workflows"
    top = git_top(root)
    if top is not None and top != root:
        said = f"left out: GitHub reads workflows only at the top of the repository, {show_path(top)}"
        return [Piece(folder, said)]
    texts = {name: packaged(name) for name in WORKFLOWS}
    if labels or shards > 1:
        texts = {name: for_gpus(text, labels or ["gpu"]) for name, text in texts.items()}
        texts[MEASURES] = with_shards(texts[MEASURES], packaged("merge_job.yml"), shards)
    return [new_file(folder / name, texts[name], what) for name, what in WORKFLOWS.items()]


def _gitignore(root: Path) -> Piece:
    path = root / ".gitignore"
    text = read(path) or ""
    if STATE_FOLDER in (line.strip().strip("/") for line in text.splitlines()):
        return Piece(path, f"has {STATE_FOLDER}/")
    # Without an empty line: such files are lists.
    newline = "\r\n" if "\r\n" in text else "\n"
    end = "" if not text or text.endswith("\n") else newline
    return Piece(path, f"{STATE_FOLDER}/, where runs are kept", f"{text}{end}{STATE_FOLDER}/{newline}")
