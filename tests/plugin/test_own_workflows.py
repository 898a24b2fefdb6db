"""Scripts of this repository's workflows that read what strangers can write: branches, labels, comments."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

WORKFLOWS = Path(__file__).parents[2] / ".github" / "workflows"
SHA, OTHER, BOT = "a" * 40, "c" * 40, "github-actions[bot]"
# Answers `gh api` with `answer.json` as `--jq` selects it, and notes requests that change something.
GH = f"""#!{sys.executable}
import json, os, sys
from pathlib import Path
import jq
here = Path(__file__).parents[1]
if "--method" in sys.argv:
    (here / "requests").write_text(" ".join(sys.argv[1:]))
else:
    query = "$e as $e | " + sys.argv[sys.argv.index("--jq") + 1].replace("env.", "$e.")
    found = jq.compile(query, args=dict(e=dict(os.environ)))
    for one in found.input_value(json.loads((here / "answer.json").read_text())).all():
        print(one)
"""


class Steps:
    """Runs single steps of jobs in a folder, with stand-ins for commands."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tools = folder / "tools"
        self.tools.mkdir()
        self.tool("gh", GH)

    def tool(self, name: str, text: str) -> None:
        (self.tools / name).write_text(text, encoding="utf-8")
        (self.tools / name).chmod(0o755)

    def run(self, workflow: str, job: str, step: str, **env: str) -> bool:
        steps = yaml.safe_load((WORKFLOWS / workflow).read_text("utf-8"))["jobs"][job]["steps"]
        (script,) = (one["run"] for one in steps if one.get("name") == step)
        environ = {
            "PATH": f"{self.tools}:{os.environ['PATH']}",
            "GITHUB_REPOSITORY": "owner/kernels",
            "GITHUB_OUTPUT": str(self.folder / "output"),
            "RUNNER_TEMP": str(self.folder),
            **env,
        }
        # As GitHub's runner starts `shell: bash`.
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
        return subprocess.run(command, cwd=self.folder, env=environ, check=False).returncode == 0

    def answer(self, found: Any) -> None:
        (self.folder / "answer.json").write_text(json.dumps(found), encoding="utf-8")


@pytest.fixture
def steps(tmp_path: Path) -> Steps:
    return Steps(tmp_path)


def pull(
    number: int, sha: str = SHA, repository: str = "owner/kernels", base: str = "main"
) -> dict[str, Any]:
    head = {"sha": sha, "repo": {"full_name": repository}}
    return {"number": number, "head": head, "base": {"ref": base}}


@pytest.mark.parametrize(
    ("pulls", "found"),
    [
        ([pull(5, OTHER), pull(6, repository="stranger/kernels"), pull(7)], "number=7\nbase=main\n"),
        ([pull(6, repository="stranger/kernels")], "number=6\nbase=main\n"),
        ([pull(5, OTHER)], ""),
        ([pull(7, base="$(touch${IFS}x)\nnumber=8")], ""),
    ],
    ids=["own and fork", "reviewed fork", "other commit", "odd branch"],
)
def test_pull_request_is_that_of_the_measured_commit(steps: Steps, pulls: list[Any], found: str) -> None:
    steps.answer(pulls)
    assert steps.run(
        "comment.yml", "find", "Find the pull request", HEAD_SHA=SHA, HEAD_REPOSITORY="owner/kernels"
    )
    output = steps.folder / "output"
    assert (output.read_text() if output.exists() else "") == found


@pytest.mark.parametrize(
    ("author", "change"),
    [
        ("somebody", "POST repos/owner/kernels/issues/7/comments"),
        (BOT, "PATCH repos/owner/kernels/issues/comments/3"),
    ],
)
def test_own_comment_is_updated_and_none_of_others(steps: Steps, author: str, change: str) -> None:
    marker = "<!-- gpuperf: gpuperf -->"
    steps.answer([{"id": 3, "user": {"login": author}, "body": f"{marker}\nold"}])
    (steps.folder / "comment.md").write_text(f"{marker}\nnew", encoding="utf-8")
    assert steps.run("comment.yml", "comment", "Add or update the comment", NUMBER="7")
    assert (steps.folder / "requests").read_text() == f"api --silent --method {change} -F body=@comment.md"


@pytest.mark.parametrize(
    ("reference", "tests", "arguments"),
    [
        (
            "main",
            "suites/test_a.py::test_b[4096-fp16]\n  suites/more",
            "suites/test_a.py::test_b[4096-fp16] suites/more",
        ),
        ("main", "gpuperf-against", "suites"),
        ("main", "gpuperf-against suites/test_a.py", "suites/test_a.py"),
        *(("main", name, "") for name in ("$(touch x)", "perf;id", "--co", "../x", "/etc", "a*b")),
        *((name, "", "") for name in ("--help", "-x", "$(id)", "main;id", "nowhere", "main^{/a}")),
    ],
)
def test_odd_names_stop_the_comparison(steps: Steps, reference: str, tests: str, arguments: str) -> None:
    git = ["git", "-C", str(steps.folder), "-c", "user.name=a", "-c", "user.email=a@b"]
    for command in (["init", "-q", "-b", "main"], ["commit", "-q", "--allow-empty", "-m", "old"]):
        subprocess.run([*git, *command], check=True)
    commit = subprocess.check_output([*git, "rev-parse", "main"], text=True).strip()
    (steps.folder / "venv" / "bin").mkdir(parents=True)
    (steps.folder / "venv" / "bin" / "activate").touch()
    steps.tool("tox", f'#!/bin/sh\necho "$*" > {steps.folder}/log\n')
    passed = steps.run("against.yml", "measure", "Measure old and new code", REFERENCE=reference, TESTS=tests)
    log = steps.folder / "log"
    assert passed == log.exists() == bool(arguments)
    if arguments:
        options = f"--gpuperf-replay=never --gpuperf-against={commit}"
        assert log.read_text() == f"run -e suites -- {arguments} {options}\n"
