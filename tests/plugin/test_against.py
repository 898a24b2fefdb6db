"""`--gpuperf-against` from the command line, with a fake GPU: forked runs, and a few in new processes."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from against_project import ARGUMENTS, Project
from forked import run_forked
from process_end import has_gone
from pytest_gpuperf.settings.settings import PROFILING_PASS_ENV, SIDE_ENV, Settings
from run_results import expect_usage_error

if TYPE_CHECKING:
    from pathlib import Path

    from runs_of_pytest import AddRecording

TEST = """
from kernels import kernel

def test_k(gpuperf):
    gpuperf.time(kernel)
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Create a project whose kernel takes 10 µs on main, and 12 µs in the checkout."""
    made = Project(tmp_path / "repo")
    made.commit({"kernels.py": "def kernel(): return 10.0\n", "test_k.py": TEST})
    made.write({"kernels.py": "def kernel(): return 12.0\n"})
    made.forks = True
    return made


def test_run_names_the_commit_and_keeps_the_comparison(project: Project) -> None:
    commit = project.git("rev-parse", "HEAD")
    done = project.session("--gpuperf-against=main")
    assert done.returncode == 1, done.stdout
    assert "gpuperf: 20.0 % slower: 10 → 12 µs (" in done.stdout
    assert "baseline accept" not in done.stdout
    assert commit[:7] in done.stdout
    found = project.compared()["test_k"]
    assert (found.ref, found.commit, found.old_us, found.new_us) == ("main", commit, 10.0, 12.0)
    assert len(found.log_ratios) == 2
    assert project.leftovers() == []


def test_run_file_has_no_absolute_path(project: Project) -> None:
    project.restarts = "1"
    project.commit({"test_k.py": "def test_k(gpuperf): raise ValueError(__file__)\n"})
    project.write({"test_k.py": TEST})
    project.session("--gpuperf-against=main")
    assert "ValueError: test_k.py" in project.settlements()["test_k"].reason
    assert str(project.root.parent) not in max(project.root.rglob("run.json")).read_text()


def test_old_code_uses_the_timing_mode_of_the_run(project: Project) -> None:
    project.restarts = "1"
    ini = "[pytest]\ngpuperf = {}\ngpuperf_against = main\ngpuperf_mode = {}\ngpuperf_counters = off\n"
    project.commit({"pytest.ini": ini.format("false", "queued")})
    project.write({"pytest.ini": ini.format("true", "cold")})
    arguments = ("-p", "fake_gpu", "-p", "no:cacheprovider", "--strict-config")
    logs = (project.root.parent / "stdout", project.root.parent / "stderr")
    assert run_forked(arguments, project.environment(), logs, 120, project.root) == 0
    assert project.compared()["test_k"].mode == "cold"


def test_a_command_from_outside_the_checkout_is_a_usage_error(project: Project) -> None:
    project.path.append(project.root)
    arguments = ("--gpuperf-against=main", f"--rootdir={project.root}", str(project.root))
    done = project.session(*arguments, cwd=project.temporary)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "pytest was started outside the checkout, but old code has to run the same command" in (
        done.stderr
    )
    assert project.leftovers() == []


@pytest.mark.parametrize("replay", ["auto", "latest"])
def test_a_replay_has_nothing_to_compare(
    pytester: pytest.Pytester, add_recording: AddRecording, replay: str
) -> None:
    pytester.makepyfile(test_k="def test_k(gpuperf): gpuperf.time(print)\n")
    result = pytester.runpytest("--gpuperf", "--gpuperf-against=main", f"--gpuperf-replay={replay}")
    expect_usage_error(result, "ERROR: gpuperf: --gpuperf-against=main measures, and *; expected a GPU; *")


@pytest.mark.parametrize("name", [PROFILING_PASS_ENV, SIDE_ENV])
def test_a_child_compares_nothing_itself(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    assert Settings.from_config(pytester.parseconfig("--gpuperf-against=main")).against == "main"
    monkeypatch.setenv(name, "somewhere")
    assert Settings.from_config(pytester.parseconfig("--gpuperf-against=main")).against == ""


def test_tests_that_measure_nothing_need_no_worktree(project: Project) -> None:
    project.write({"test_k.py": "def test_plain(): pass\n"})
    done = project.session("--gpuperf-against=nope")
    assert "no test was judged" in done.stdout + done.stderr
    assert "nope" not in done.stderr


def test_lost_side_is_reported_once_and_tests_still_run(project: Project) -> None:
    dying = "import os\nprint('::error::no such driver', flush=True)\nos._exit(3)\n"
    project.commit({"conftest.py": dying})
    project.write({"conftest.py": ""})
    done = project.session("--gpuperf-against=main", "-s")
    assert done.stdout.count("gpuperf: the process with the code of main (") == 1
    assert "    : :error::no such driver\n" in done.stdout  # GitHub would read a separate line as a command
    found = project.settlements()["test_k"]
    assert (found.how, found.against and found.against.ref) == ("impossible", "main")
    assert found.reason.endswith("ended with exit status 3: : :error::no such driver")


def begun(project: Project, test: str) -> tuple[subprocess.Popen[str], int]:
    """Return a run whose side process has begun a test, and its id."""
    pid_file = project.root.parent / "pid"
    note = f"open({str(pid_file)!r}, 'w').write(str(__import__('os').getpid()) + '.')"
    of_old_code = f"if 'gpuperf-against-' in __file__:\n        {note}\n        {test}\n"
    text = f"def test_k(gpuperf):\n    {of_old_code}    gpuperf.time(lambda: 10.0)\n"
    project.commit({"test_k.py": text})
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", *ARGUMENTS, "--gpuperf-against=main"],
        cwd=project.root,
        env=project.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    end = time.monotonic() + 60
    while not pid_file.exists() or not pid_file.read_text().endswith("."):
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.05)
    assert len(project.leftovers()) == 3  # one in git, two in the temporary folder
    return process, int(pid_file.read_text().rstrip("."))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_ended_run_leaves_nothing_behind(project: Project, number: signal.Signals) -> None:
    process, child = begun(project, "__import__('time').sleep(60)")
    process.send_signal(number)
    output, _ = process.communicate(timeout=30)
    ctrl_c = number is signal.SIGINT
    assert process.returncode == (pytest.ExitCode.INTERRUPTED if ctrl_c else -number)
    assert ("KeyboardInterrupt" in output) == ctrl_c
    assert has_gone(child, within_s=0.1)
    assert project.leftovers() == []


def test_side_ends_when_its_parent_is_killed(project: Project) -> None:
    process, child = begun(project, "gpuperf.time(lambda: __import__('time').sleep(0.2) or 10.0)")
    process.kill()
    process.communicate(timeout=30)
    assert has_gone(child, within_s=20)
