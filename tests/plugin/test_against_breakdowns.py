"""Side processes of `--gpuperf-against` that crash, hang, cannot start or are interrupted."""

from __future__ import annotations

import os
import re
import signal
import time
from typing import TYPE_CHECKING

import pytest

from against_pass_project import TEST, K, found, log, ten_microseconds

if TYPE_CHECKING:
    from pathlib import Path

    from against_project import Project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return ten_microseconds(tmp_path / "repo")


def test_crashed_side_affects_one_test_only(project: Project) -> None:
    dying = TEST + "def test_dies(gpuperf): __import__('os').abort()\n"
    project.commit({"test_k.py": "", "test_a.py": TEST, "test_b.py": dying, "test_c.py": TEST})
    nodeids = ("test_a.py::test_k", "test_b.py::test_dies", "test_c.py::test_k")
    paired = project.compare(*nodeids, looks=(2,))
    assert [len(found(paired, nodeid).record.log_ratios) for nodeid in nodeids] == [2, 0, 2]
    lost = found(paired, nodeids[1]).record
    assert lost.broken
    assert lost.reason.endswith("ended with signal 6 (Aborted)")
    (notice,) = paired.notices
    assert f"signal 6 (Aborted) in {nodeids[1]}; see " in notice
    assert re.search(r'Fatal Python error: Aborted\n.*\n.*test_b.py", line 6 in test_dies', notice)


def test_broken_gpu_affects_one_test_only(project: Project) -> None:
    breaks = TEST + 'def test_breaks(gpuperf): __import__("fake_gpu").error.append("CUDA error: illegal")\n'
    project.commit({"test_k.py": "", "test_b.py": breaks, "test_c.py": TEST})
    nodeids = ("test_b.py::test_breaks", "test_c.py::test_k")
    paired = project.compare(*nodeids, looks=(1,))
    assert [len(found(paired, nodeid).record.log_ratios) for nodeid in nodeids] == [0, 1]
    assert "the GPU is broken: CUDA error: illegal" in "".join(paired.notices)


def test_a_side_that_hangs_is_given_up(project: Project) -> None:
    project.commit({"test_more.py": TEST})
    project.write({"test_more.py": "import time\ndef test_k(gpuperf): time.sleep(60)\n"})
    begin = time.monotonic()
    paired = project.compare("test_more.py::test_k", K, looks=(1,), patience_s=4.0)
    assert time.monotonic() - begin < 30
    assert found(paired, "test_more.py::test_k").record.reason == (
        "the process with the present code has not answered for 4 s"
    )
    assert found(paired).decision is not None


def test_side_that_cannot_start_is_reported_once(project: Project) -> None:
    project.commit({"conftest.py": "raise RuntimeError('no such driver')\n", "test_more.py": TEST})
    project.write({"conftest.py": ""})
    paired = project.compare(K, "test_more.py::test_k")
    for nodeid in (K, "test_more.py::test_k"):
        record = found(paired, nodeid).record
        assert record.broken
        assert record.reason == f"the process with the code of {paired.commit} ended with exit status 4"
    assert len(paired.notices) == 1
    assert "no such driver" in paired.notices[0]


def test_side_that_ends_after_collection_is_not_restarted(project: Project) -> None:
    project.commit(
        {
            "conftest.py": "def pytest_collection_modifyitems(): raise RuntimeError('no')\n",
            "test_more.py": TEST,
        }
    )
    paired = project.compare(K, "test_more.py::test_k", looks=(1,))
    assert found(paired).record.broken
    assert len(paired.notices) == 1
    assert log(project, "old").count("test session starts") == 1


def test_program_left_running_does_not_block_the_run(project: Project) -> None:
    left = project.root.parent / "left"
    project.commit(
        {
            "test_k.py": f"""
            import os, pathlib

            def test_k(gpuperf):
                if (child := os.fork()) == 0:
                    __import__("time").sleep(60)
                pathlib.Path({str(left)!r}).write_text(str(child))
                os._exit(3)
            """
        }
    )
    begin = time.monotonic()
    assert "exit status 3" in found(project.compare(K, looks=(1,))).record.reason
    assert time.monotonic() - begin < 20
    os.kill(int(left.read_text()), signal.SIGKILL)


def test_ctrl_c_leaves_no_side_and_no_worktree(project: Project) -> None:
    pids = project.root.parent / "pids"
    project.commit(
        {
            "test_k.py": f"""
            import os

            def test_k(gpuperf):
                with open({str(pids)!r}, "a") as stream:
                    stream.write(f"{{os.getpid()}}\\n")
                __import__("time").sleep(60)
            """
        }
    )

    def interrupt(_: str) -> None:
        if pids.exists() and pids.read_text().endswith("\n"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        project.compare(K, say=interrupt)
    assert project.leftovers() == []
    for pid in pids.read_text().split():
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid), 0)
