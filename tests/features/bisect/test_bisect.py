"""`gpuperf bisect`: exit statuses by verdicts, and `git bisect run` on a planted regression."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from against_project import ARGUMENTS, Project
from command_line import gpuperf

WRITE = """
import os, pathlib, sys
[option] = os.environ["PYTEST_ADDOPTS"].split()
pathlib.Path(option.removeprefix("--gpuperf-json=")).write_text(sys.argv[1])
sys.exit(int(sys.argv[2]))
"""
OWN = (sys.executable, "-c", "from pytest_gpuperf.cli import main; main()", "bisect")
TEST = """
from kernels import kernel

def test_k(gpuperf):
    gpuperf.time(kernel)
"""


def judged(*given: str) -> list[dict[str, Any]]:
    return [{"nodeid": "test_k", "verdict": it.strip("~!>"), "expected_failure": "~" in it} for it in given]


@pytest.mark.parametrize(
    ("verdicts", "ended", "status", "reason"),
    [
        (["pass", "improved"], 0, 0, "good: 2 passed"),
        (["pass", "~regressed~"], 0, 125, "skipped: test_k is regressed, as expected"),
        (["pass", "~pass~"], 0, 0, "good: 2 passed"),
        ([">pass"], 0, 125, "skipped: test_off was skipped"),
        (["!pass"], 0, 125, "skipped: nothing was measured: a recording was judged"),
        (["inconclusive", "regressed"], 1, 1, "bad: test_k is regressed"),
        (["wrong"], 1, 125, "skipped: test_k is wrong"),
        (["pass", "inconclusive"], 0, 125, "skipped: test_k is inconclusive"),
        (["new"], 0, 125, "skipped: test_k is new"),
        (["pass"], 1, 125, "skipped: no verdict is bad, but the command ended with 1"),
        ([], 4, 125, "skipped: no verdict is bad, but the command ended with 4"),
    ],
)
def test_exit_status_follows_the_verdicts(
    verdicts: list[str], ended: int, status: int, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    found = {"schema": 1, "passed": not ended, "replayed": "!pass" in verdicts, "tests": judged(*verdicts)}
    found["skipped"] = ["test_off"] * (">pass" in verdicts)
    done = gpuperf("bisect", sys.executable, "-c", WRITE, json.dumps(found), ended, status=status)
    assert done.stderr == f"gpuperf: {reason}\n"


@pytest.mark.parametrize(
    "line", [[], ["--", sys.executable, "-c", "raise SystemExit(2)"], ["no-such-program"], ["/"]]
)
def test_command_without_verdicts_skips_the_commit(line: list[str]) -> None:
    assert gpuperf("bisect", *line, status=125).stderr.startswith("gpuperf: skipped: ")


@pytest.mark.parametrize(("begin", "status"), [("", 0), ("os.kill(os.getppid(), 2)", 125)])
def test_full_disk_or_interrupt_is_not_bad(begin: str, status: int) -> None:
    passed = json.dumps({"passed": True, "tests": judged("pass")})
    line = [*OWN, sys.executable, "-c", f"import os\n{begin}\n{WRITE}", passed, "0"]
    with Path("/dev/full").open("w") as full:
        assert subprocess.run(line, stdout=full, stderr=full, timeout=60).returncode == status


def test_git_bisect_finds_a_planted_regression(tmp_path: Path) -> None:
    project = Project(tmp_path / "repo")
    project.restarts = "1"
    good = project.commit({"kernels.py": "def kernel(): return 10.0\n", "test_k.py": TEST})
    project.commit({"kernels.py": "def kernel(): return 9.0 + 1.0\n"})
    project.commit({"kernels.py": "def kernel(: return 10.0\n"})
    project.commit({"kernels.py": "def kernel(): return 8.0 + 2.0\n"})
    planted = project.commit({"kernels.py": "def kernel(): return 12.0\n"})
    project.commit({"README": "slow"})
    project.git("bisect", "start", "HEAD", good)
    pytest_line = (sys.executable, "-m", "pytest", *ARGUMENTS, f"--gpuperf-against={good}")
    done = subprocess.run(
        ["git", "bisect", "run", *OWN, *pytest_line],
        cwd=project.root,
        env=project.environment(),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert f"{planted} is the first bad commit" in done.stdout, done.stdout + done.stderr
    assert "gpuperf: bad: test_k.py::test_k is regressed" in done.stdout + done.stderr
    assert project.leftovers() == []
