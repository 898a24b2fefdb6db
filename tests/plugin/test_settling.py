"""Suspects are settled right after their test, with real git, real processes and a fake GPU."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from against_project import Project
from command_line import gpuperf
from pytest_gpuperf.judge.times import BY_SESSIONS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

TEST = """
from kernels import kernel

def test_k(gpuperf):
    gpuperf.time(kernel)

def test_steady(gpuperf):
    gpuperf.time(lambda: 5.0)
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Create a project with a committed baseline of 10 µs, whose kernel takes 12 µs now."""
    made = Project(tmp_path / "repo")
    made.forks = True
    made.commit({"kernels.py": "def kernel(): return 10.0\n", "test_k.py": TEST, ".gitignore": "*.pyc\n"})
    baseline(made)
    made.write({"kernels.py": "def kernel(): return 12.0\n"})
    return made


def baseline(project: Project, *, commit: bool = True) -> None:
    done = project.session("--gpuperf-update=all")
    assert done.returncode == 0, done.stdout
    if commit:
        project.commit({})


def start_again(project: Project, files: Mapping[str, str]) -> None:
    """Commit files, and a baseline with one session of them."""
    project.git("rm", "-r", "--quiet", "baselines")
    project.commit(files)
    baseline(project)


def test_suspect_is_settled_by_the_code_of_its_baseline(project: Project) -> None:
    commit = project.git("rev-parse", "HEAD")
    waits = "import pytest, time\n@pytest.fixture(autouse=True)\ndef model(): time.sleep(0.6)\n"
    last = "class Last:\n    def pytest_terminal_summary(self): print('last part')\n"
    register = "def pytest_addoption(pluginmanager): pluginmanager.register(Last(), 'hypothesispytest')\n"
    project.write({"conftest.py": f"{waits}{last}{register}"})
    done = project.session()
    assert done.returncode == 1, done.stdout
    assert "1 suspect settled in " in done.stdout
    found = project.settlements()
    assert list(found) == ["test_k"]  # the other one is within the screen
    assert (found["test_k"].how, found["test_k"].reason) == ("in turn", "")
    against = project.compared()["test_k"]
    assert (against.commit, against.old_us, against.new_us) == (commit, 10.0, 12.0)
    assert found["test_k"].fresh_us == (12.0,) * len(against.log_ratios)
    assert len(found["test_k"].sessions) == 1
    # Only new code has the fixture.
    assert 0.3 <= (setup_s := found["test_k"].setup_s) < found["test_k"].seconds
    assert f"old code {commit[:7]}, {setup_s} s of set-up a process)" in done.stdout
    (log,) = project.root.glob(".gpuperf/runs/*/against/new_1.log")
    assert ("last part" in done.stdout, "last part" in log.read_text()) == (True, False)
    assert project.leftovers() == []


@pytest.mark.parametrize(("options", "failed"), [("", 2), ("-x", 1), ("-p xdist -n1", 2)])
def test_settled_failures_end_the_run_where_they_belong(project: Project, options: str, failed: int) -> None:
    """Also with a hook of another folder, which pytest leaves out for reports of other tests."""
    hook, test = "def pytest_runtest_logreport(report): pass\n", TEST.replace("lambda: 5.0", "kernel")
    project.write({"conftest.py": hook, "test_k.py": test})
    project.write({"a/conftest.py": hook, "a/test_o.py": "def test_o(): pass\n"})
    done = project.session(*options.split(), "--junitxml=out.xml")
    assert f"{failed} failed, 1 passed in" in done.stdout
    names = re.findall(' name="(test_.*?)"', (project.root / "out.xml").read_text())
    assert names == ["test_o", "test_k", "test_steady"][: 1 + failed]


def test_old_code_is_that_of_the_oldest_session(project: Project) -> None:
    first = project.git("rev-parse", "HEAD")
    project.commit({"kernels.py": "def kernel(): return 10.0\n# the same\n"})
    baseline(project)
    project.write({"kernels.py": "def kernel(): return 12.0\n"})
    project.session()
    assert len(project.settlements()["test_k"].sessions) == 2
    assert project.compared()["test_k"].commit == first


def test_code_of_the_newest_session_stands_in_for_the_oldest(project: Project) -> None:
    kernels = "open('data')\ndef kernel(): return 10.0\n"
    start_again(project, {"data": "", ".gitignore": "data\n", "kernels.py": kernels})
    project.commit({"kernels.py": "def kernel(): return 10.0\n"})
    baseline(project)
    project.write({"kernels.py": "def kernel(): return 12.0\n"})
    project.session()
    assert len(project.settlements()["test_k"].sessions) == 2
    assert project.compared()["test_k"].commit == project.git("rev-parse", "HEAD")


NO_GIT = "old code comes from git, which says of pytest's rootdir: not a git repository"


def test_without_git_fresh_processes_are_timed_at_the_clock_of_the_screen(project: Project) -> None:
    """The run itself has no clock model: the stored one serves, as for the screen."""
    (project.root / ".git").rename(project.root / "git")
    path = next(project.root.glob("baselines/*/test_k.json"))
    content = json.loads(path.read_text())
    for test in content["tests"].values():
        known = test["measurements"]["main"]["time"]
        model = {"cycles": 1980.0 * known["sessions"][0]["time_us"], "fixed_us": 0.0, "reference_mhz": 990.0}
        at_clock = {"time_us": 2 * known["sessions"][0]["time_us"], "sm_clock_mhz": 990.0}
        known["sessions"][0] |= {**at_clock, "normalised_us": at_clock["time_us"], "clock_model": model}
        known["reference_mhz"] = 990.0
    path.write_text(json.dumps(content))
    done = project.session("-rA")
    found = project.settlements()["test_k"]
    assert (found.how, found.fresh_us) == ("fresh", (24.0,) * 3), done.stdout
    assert found.reason.startswith(NO_GIT)
    assert "20.0 % slower" in done.stdout


def test_caught_mistake_is_not_accepted(project: Project) -> None:
    mistake = "    try: gpuperf.time(None)\n    except BaseException: pass\n"
    project.write({"test_k.py": TEST + mistake})
    assert "1 measurement in 1 file, 1 refused" in project.session("--gpuperf-update=all").stdout


def test_a_test_that_failed_otherwise_is_not_settled(project: Project) -> None:
    project.write({"test_k.py": TEST.replace("kernel)", "kernel)\n    assert 0")})
    project.session()
    assert project.settlements() == {}


@pytest.mark.parametrize(
    ("seconds", "why"),
    [("0", "gpuperf_settle_seconds is 0"), ("0.01", "the 0 s of gpuperf_settle_seconds are spent")],
)
def test_what_the_budget_does_not_reach_has_a_reason(project: Project, seconds: str, why: str) -> None:
    project.session(f"-ogpuperf_settle_seconds={seconds}")
    found = project.settlements()["test_k"]
    assert (found.how, found.reason, found.fresh_us) == ("impossible", why, ())
    assert project.leftovers() == []


def test_memory_of_the_test_is_free_while_it_is_settled(project: Project) -> None:
    """Count the tensors of the test and of its fixtures that are alive when a side process is started."""
    test = """
    import gc, os, pytest
    from kernels import kernel

    class Tensor: pass

    @pytest.fixture
    def returned(): return Tensor()

    @pytest.fixture
    def yielded():
        tensor = Tensor()
        yield tensor

    def test_k(gpuperf, returned, yielded):
        tensor = Tensor()
        gpuperf.check(kernel, tensor, expected=kernel)
        gpuperf.time(kernel, tensor)
    """
    conftest = f"""
    import gc
    from pytest_gpuperf.against import engine

    class Process(engine.SideProcess):
        def __init__(self, *args):
            alive = [one for one in gc.get_objects() if type(one).__name__ == "Tensor"]
            open({str(project.root.parent / "alive")!r}, "a").write(str(len(alive)))
            super().__init__(*args)

    engine.SideProcess = Process
    """
    kernels = "def kernel(_): return {}\n"
    start_again(project, {"test_k.py": test, "kernels.py": kernels.format(10.0), "conftest.py": conftest})
    project.write({"kernels.py": kernels.format(12.0)})
    project.session()
    assert project.settlements()["test_k"].how == "in turn"
    assert set((project.root.parent / "alive").read_text()) == {"0"}


MEMORY = """
import pathlib, pytest, sys
from kernels import kernel

HOLDS = pathlib.Path({!r})

@pytest.fixture(scope="session")
def weights():
    if "gpuperf-sides-" in sys.argv[0]:
        if HOLDS.exists():
            raise RuntimeError("CUDA error: out of memory")
        yield
        return
    HOLDS.touch()
    yield
    HOLDS.unlink()

def test_k(gpuperf, weights):
    gpuperf.time(kernel)

def test_steady(gpuperf):
    gpuperf.time(lambda: 5.0)
"""


@pytest.mark.parametrize("isolated", [(), ("-p", "xdist", "-n1")], ids=["one-process", "worker"])
def test_suspect_that_lacks_memory_is_settled_after_the_tests(
    project: Project, monkeypatch: pytest.MonkeyPatch, isolated: tuple[str, ...]
) -> None:
    """A session fixture holds so much memory that no side finds any before it ends."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)  # a lock has the name of the GPU
    test = MEMORY.format(str(project.root.parent / "holds"))
    start_again(project, {"test_k.py": test, "kernels.py": "def kernel(): return 10.0\n"})
    project.write({"kernels.py": "def kernel(): return 12.0\n"})
    done = project.session(*isolated, "-v")
    found = project.settlements()["test_k"]
    assert (found.how, found.against and found.against.old_us) == ("in turn", 10.0), done.stdout
    assert done.returncode == 1
    shown = [line.split()[0] for line in done.stdout.splitlines() if re.search("(PASS|FAIL)ED +\\[", line)]
    assert [name.rpartition("::")[2] for name in shown] == ["test_steady", "test_k"], done.stdout
    assert "1 failed, 1 passed in" in done.stdout
    assert "1 suspect settled in" in done.stdout
    assert "out of memory" not in done.stdout
    assert project.leftovers() == []


def test_timers_end_no_settling(project: Project) -> None:
    pytest.importorskip("pytest_timeout")
    timers = ("--gpuperf-timeout=1", "-ofaulthandler_timeout=1", "-ppytest_timeout", "-otimeout=1")
    slow = "import time\ndef kernel():\n    time.sleep(0.05)\n    return {}\n"
    start_again(project, {"kernels.py": slow.format(10.0)})
    project.write({"kernels.py": slow.format(12.0)})
    done = project.session(*timers)
    assert project.settlements()["test_k"].seconds > 1
    assert project.settlements()["test_k"].how == "in turn"
    log = next(project.root.rglob("against/new_1.log")).read_text()
    assert "Timeout" not in done.stdout + done.stderr + log


def test_a_test_that_runs_again_reuses_its_settlement(project: Project) -> None:
    """The second time is within the screen."""
    again = """
    from _pytest.runner import runtestprotocol

    def pytest_runtest_protocol(item, nextitem):
        for us in (12.0, 10.0):
            item.module.kernel = lambda us=us: us
            reports = runtestprotocol(item, nextitem=nextitem, log=False)
        for report in reports:
            item.ihook.pytest_runtest_logreport(report=report)
        return True
    """
    project.write({"conftest.py": again})
    done = project.session()
    assert (done.returncode, "20.0 % slower" in done.stdout) == (1, True), done.stdout
    logs = "".join(one.read_text() for one in project.root.rglob("against/new_*.log"))
    assert logs.count("test session starts") == len(project.compared()["test_k"].log_ratios)


def test_settled_failure_can_be_expected(project: Project) -> None:
    marked = "import pytest\n@pytest.mark.xfail(strict=True)\ndef test_k"
    project.write({"test_k.py": TEST.replace("def test_k", marked)})
    assert "1 passed, 1 xfailed" in project.session().stdout


def test_the_next_run_begins_with_the_settled_failure(project: Project) -> None:
    first = project.session()
    assert "1 failed, 1 passed" in first.stdout, first.stdout + first.stderr
    second = project.session("--lf")
    assert "1 failed" in second.stdout, second.stdout + second.stderr
    assert "1 passed" not in second.stdout


def test_old_code_has_to_launch_the_code_of_the_baseline(project: Project) -> None:
    code = """
    from pytest_gpuperf.records import LaunchedCode, LaunchedKernel
    def kernel(): return 10.0
    kernel.code = LaunchedCode(kernels=(LaunchedKernel(name="k", code="a" * 64),))
    """
    start_again(project, {"kernels.py": code})
    project.write({"kernels.py": code.replace("10.0", "12.0")})
    project.session()
    assert project.settlements()["test_k"].how == "in turn"
    path = next(project.root.glob("baselines/*/test_k.json"))
    path.write_text(path.read_text().replace('"k"', '"other"'))
    project.git("commit", "--quiet", "-m", "x", str(path))
    project.session()
    found = project.settlements()["test_k"]
    assert found.how == "fresh"
    assert "does not launch the code of the baseline: k is a new kernel" in found.reason


def test_slow_code_that_brought_a_session_passes_nothing(project: Project) -> None:
    """Commit slow code with a session of fast code, whose hashes a later session has replaced."""
    code = """
    from pytest_gpuperf.records import LaunchedCode, LaunchedKernel
    def kernel(): return {}
    kernel.code = LaunchedCode(kernels=(LaunchedKernel(name="k", code="{}" * 64),))
    """
    fast, slow = ({"kernels.py": code.format(*version)} for version in ((10.0, "a"), (12.0, "b")))
    project.git("rm", "-r", "--quiet", "baselines")
    project.commit(slow)
    project.write(fast)
    baseline(project, commit=False)
    project.commit(slow)
    project.commit(fast)
    baseline(project)
    project.write(slow)
    done = project.session()
    assert (done.returncode, len(project.settlements()["test_k"].sessions)) == (1, 2)
    assert project.compared()["test_k"].old_us == 10.0


NEWER = "29991231-235959-ffff"


def commit_faster_baseline(project: Project, package: str, *, other_card: bool = False) -> None:
    """Make the baseline one of 9 µs, measured with another version of a package."""
    path = next(project.root.glob("baselines/*/test_k.json"))
    now = path.read_text()
    text = re.sub(f'("{package}": )"[^"]*"', r'\1"3.5"', now).replace("10.0", "9.0").replace(" 10", " 9")
    data = json.loads(text)
    if other_card:  # the newest session is another card's, with the present packages
        [note] = json.loads(now)["runs"].values()
        data["runs"][NEWER] = {**note, "gpu_uuid": "GPU-other"}
        for test in data["tests"].values():
            sessions = test["measurements"]["main"]["time"]["sessions"]
            sessions.append({**sessions[0], "run": NEWER})
    path.write_text(json.dumps(data))
    project.commit({})


@pytest.mark.parametrize(("package", "other_card"), [("triton", False), ("python", False), ("python", True)])
def test_processes_confirm_that_packages_moved_a_time(
    project: Project, package: str, other_card: bool
) -> None:
    """Time a third process if old and new code are alike, and the baseline is of another version."""
    project.git("checkout", "--quiet", "--", "kernels.py")
    commit_faster_baseline(project, package, other_card=other_card)
    project.session()
    assert len(project.compared()["test_k"].log_ratios) == 2
    assert project.settlements()["test_k"].fresh_us == (10.0,) * 3


NO_TIME = """
from pytest_gpuperf.against import engine

def fresh(*_):
    raise engine.OutOfTimeError("no time is left")

engine.Engine.fresh = fresh
"""


def test_without_git_and_time_nothing_is_settled(project: Project) -> None:
    (project.root / ".git").rename(project.root / "git")
    project.write({"conftest.py": NO_TIME})
    project.session()
    found = project.settlements()["test_k"]
    assert found.how == "impossible"
    assert re.match(f"{NO_GIT}.*; no time is left", found.reason)


def test_time_spent_on_packages_leaves_what_was_timed_in_turn(project: Project) -> None:
    """Spend the time in the fresh processes of the first label of two."""
    test = "from kernels import kernel\ndef test_k(gpuperf):\n" + "".join(
        f"    gpuperf.time(kernel, label={label!r})\n" for label in "ab"
    )
    kernels = "def kernel(): return 10.0\n"
    start_again(project, {"kernels.py": kernels, "test_k.py": test, "conftest.py": NO_TIME})
    commit_faster_baseline(project, "triton")
    project.session()
    found = project.settlements()
    assert found.keys() == {"test_k a", "test_k b"}
    assert {(one.how, len(one.fresh_us)) for one in found.values()} == {("in turn", 2)}


@pytest.mark.parametrize("isolated", [(), ("-p", "xdist", "-n1")], ids=["one-process", "worker"])
def test_baseline_has_packages_that_tests_import_late(project: Project, isolated: tuple[str, ...]) -> None:
    site = project.root.parent / "site-packages"
    metadata = site / "late_kernels-1.5.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Name: late-kernels\nVersion: 1.5\n")
    (metadata / "top_level.txt").write_text("late\n")
    (site / "late.py").write_text("triton = None\n")
    project.path.append(site)
    project.write({"test_k.py": TEST.replace("    gpuperf", "    import late\n    gpuperf")})
    project.session("--gpuperf-update=all", *isolated)
    assert '"late-kernels": "1.5"' in next(project.root.glob("baselines/*/test_k.json")).read_text()


@pytest.mark.parametrize("strict", [(), ("--gpuperf-strict",)])
def test_what_is_accepted_anyway_is_not_settled(project: Project, strict: tuple[str, ...]) -> None:
    done = project.session("--gpuperf-update=all", *strict)
    assert (done.returncode, project.settlements()) == (0, {}), done.stdout


UNTIMED = TEST.replace("(gpuperf):\n    gpuperf.time(kernel)", "(): pass")


@pytest.mark.parametrize(
    ("us", "test", "options"),
    [(12.0, TEST, ()), (12.0, UNTIMED, ()), (10.0, TEST, ("--gpuperf-against=main",))],
)
def test_suggested_command_makes_a_live_failure_go_away(
    project: Project, us: float, test: str, options: tuple[str, ...]
) -> None:
    project.commit({"kernels.py": "raise ImportError\n"})
    project.write({"kernels.py": f"def kernel(): return {us}\n", "test_k.py": test})
    failed = project.session("--gpuperf-strict", *options)
    step = BY_SESSIONS if options else "if this is intended: gpuperf baseline accept\n"
    assert (failed.returncode, step in failed.stdout) == (1, True), failed.stdout
    if not options:
        gpuperf("baseline", "accept", "--root", project.root, status=0)
    assert project.session("--gpuperf-strict").returncode == 0


def test_each_card_settles_its_own(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("xdist")
    by_card = "import os\ndef kernel(): return {} + (os.environ['CUDA_VISIBLE_DEVICES'] == 'GPU-1')\n"
    tests = "from kernels import kernel\n" + "".join(
        f"def test_{name}(gpuperf): gpuperf.time(kernel)\n" for name in "ab"
    )
    monkeypatch.setenv("FAKE_GPUS", "2")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    project.commit({"kernels.py": by_card.format(10), "test_k.py": tests})
    done = project.session("--gpuperf-update=all", "-p", "xdist", "-n2")
    assert done.returncode == 0, done.stdout
    project.commit({})
    project.write({"kernels.py": by_card.format(20)})
    done = project.session("-p", "xdist", "-n2")
    found = project.settlements()
    assert {one.how for one in found.values()} == {"in turn"}, done.stdout
    assert {one.against.new_us for one in found.values() if one.against} == {20.0, 21.0}
