"""`gpuperf init`: add the files that a repository needs to test its kernels."""

from __future__ import annotations

import json
from contextlib import suppress
from importlib.resources import files
from pathlib import Path

import click

from pytest_gpuperf._version import requirement
from pytest_gpuperf.cli.output import echo
from pytest_gpuperf.processes.git import GitError, run_git
from pytest_gpuperf.records.files import show_path, write_files

SUITE = "perf"
EXAMPLE = "test_perf_example.py"
"""A rare name: pytest cannot import two test files with the same name from plain folders."""
WORKFLOW = ".github/workflows/gpuperf.yml"
SKILLS = [f"{folder}/skills/gpuperf/SKILL.md" for folder in (".agents", ".claude")]
"""Claude Code reads only the second; the skill has one form for all (https://agentskills.io/specification)."""
TOX = f"""\
[testenv:gpuperf]
package = editable
deps = {requirement("torch,triton,ncu")}
pass_env = CUDA_*,NVIDIA_*,GITHUB_*,TRITON_*,TORCH_*,CI,CC,CXX
commands = python -m pytest --gpuperf {{posargs:perf}}
"""
OWN = {
    "pip install .\n": f"pip install '{requirement()}'\n",
    "install 'tox>=4.21'\n": "install -e . 'PACKAGE'\n",
    "Install tox": "Install",
    "tests=(suites)": f"tests=({SUITE})",
    "tox run -e suites --": "python -m pytest --gpuperf --gpuperf-strict",
    "default: main": "default: MAIN",
}
"""What differs in the workflows of this repository, which `--full` writes, too."""
NEXT = """
Next, on a machine with a GPU:
  gpuperf doctor                              is it ready to measure?
  pytest --gpuperf perf --gpuperf-update=new  measure, and make that the baseline
  gpuperf record                              let machines without a GPU replay it
Commit the new files in baselines/. From then on, with or without a GPU:
  pytest --gpuperf perf"""


@click.command("init")
@click.argument(
    "folder",
    metavar="[DIR]",
    default=".",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
)
@click.option("--agents", is_flag=True, help="Write only a skill file for coding agents.")
@click.option("--full", is_flag=True, help="Add workflows: comments, and old code in turn by label.")
def command(folder: Path, agents: bool, full: bool) -> None:
    """Write a suite and a GitHub workflow into DIR.

    DIR is the top of an existing project, the working directory by default. Existing files stay.
    """
    root = folder.resolve()
    texts = dict.fromkeys(SKILLS, packaged("SKILL.md")) if agents else _suite(root) | _workflows(root, full)
    missing = {root / name: text.encode() for name, text in texts.items() if not (root / name).exists()}
    write_files(missing)
    for name in texts:
        there = root / name not in missing
        echo(f"{'kept' if there else 'wrote':5}  {show_path(root / name)}")
    if agents:
        return
    tox = root / "tox.ini"
    if tox.is_file() and "[testenv:gpuperf]" not in tox.read_text(encoding="utf-8", errors="replace"):
        for line in ("", "With tox, add to tox.ini:", *TOX.splitlines()):
            echo(line)
    for line in NEXT.splitlines():
        echo(line)


def packaged(name: str) -> str:
    """Return the text of a file in the package."""
    return (files("pytest_gpuperf.features.starter") / "files" / name).read_text(encoding="utf-8")


def _suite(root: Path) -> dict[str, str]:
    """Return the example, unless the folder has tests of its own."""
    others = {path.name for path in (root / SUITE).glob("test_*.py")} - {EXAMPLE}
    return {} if others else {f"{SUITE}/{EXAMPLE}": packaged(f"{EXAMPLE}.txt")}


def _workflows(root: Path, full: bool) -> dict[str, str]:
    """Return the workflows; none below the top of a repository, where GitHub reads none."""
    # In a worktree or a submodule .git is a file.
    if any((folder / ".git").exists() for folder in root.parents) and not (root / ".git").exists():
        return {}
    texts = {WORKFLOW: packaged("gpuperf.yml").replace("[main]", "[MAIN]")}
    for name in ("comment.yml", "against.yml") if full else ():
        text = packaged(name)
        for before, after in OWN.items():
            text = text.replace(before, after)
        texts[str(Path(WORKFLOW).with_name(f"gpuperf-{name}"))] = text
    values = {"PACKAGE": requirement("torch,triton,ncu"), "MAIN": json.dumps(_main_branch(root))}
    pyproject = root / "pyproject.toml"
    metadata = pyproject.read_text(encoding="utf-8", errors="replace") if pyproject.is_file() else ""
    is_package = (root / "setup.py").exists() or "[project]" in metadata or "[build-system]" in metadata
    if not is_package:
        values["install -e . "] = "install "
    for before, after in values.items():
        texts = {name: text.replace(before, after) for name, text in texts.items()}
    return texts


def _main_branch(root: Path) -> str:
    """Return the main branch of the remote repository; if none is known, the one that is checked out."""
    for name in ("refs/remotes/origin/HEAD", "HEAD"):
        with suppress(GitError):
            return run_git(root, "symbolic-ref", "--short", name).decode().strip().removeprefix("origin/")
    return "main"
