"""Side processes of `--gpuperf-against` that crash, hang, cannot start or are interrupted."""

from __future__ import annotations

import os
import re
import signal
import time
from typing import TYPE_CHECKING

import pytest

from against_pass_project import TEST, K, found, reason, ten_microseconds
from against_project import Project

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return ten_microseconds(tmp_path / "repo")


def test_crashed_side_is_named_with_its_stack(project: Project) -> None:
    dies = TEST.replace("gpuperf.time(kernel)", "__import__('os').abort()")
    project.commit({"test_k.py": dies})
    paired = project.compare(K, looks=(2,))
    sides = f"(code of {re.escape(str(paired.commit))}|present code)"
    how = f"the process with the {sides} ended with signal 6 \\(Aborted\\): .*Fatal Python error: Aborted"
    assert re.fullmatch(how, reason(paired))
    (notice,) = paired.notices
    assert f"signal 6 (Aborted) in {K}; see " in notice
    assert re.search(r'Fatal Python error: Aborted\n.*\n.*test_k.py", line 5 in test_k', notice)


def test_broken_gpu_ends_the_side(project: Project) -> None:
    breaks = '    __import__("fake_gpu").error.append("CUDA error: illegal")\n'
    project.commit({"test_k.py": TEST + breaks})
    paired = project.compare(K, looks=(1,))
    assert "ended with exit status 1: " in reason(paired)
    assert "the GPU is broken: CUDA error: illegal" in reason(paired)


def test_a_side_that_hangs_is_given_up(project: Project) -> None:
    project.write({"test_k.py": "import time\ndef test_k(gpuperf): time.sleep(60)\n"})
    begin = time.monotonic()
    paired = project.compare(K, looks=(1,), patience_s=4.0)
    assert time.monotonic() - begin < 30
    assert reason(paired).startswith("the process with the present code has not answered for 4 s")


def test_submodule_that_old_code_lacks_is_named(project: Project) -> None:
    other = Project(project.root.parent / "other")
    other.commit({"kernels.py": "def kernel(): return 10.0\n"})
    allowed = ("-c", "protocol.file.allow=always")
    project.git(*allowed, "submodule", "--quiet", "add", str(other.root), "lib")
    project.commit({"test_k.py": TEST.replace("kernels", "lib.kernels")})
    paired = project.compare(K, looks=(1,))
    assert reason(paired).endswith("No module named 'lib.kernels' (git checks out no submodule of it: lib)")


def test_old_code_runs_with_the_options_of_the_run(project: Project) -> None:
    """Options and keys of another version of the plugin, or of a plugin that is gone, stop nothing."""
    ini = "[pytest]\naddopts = --strict-config --gpuperf-gone=1\ngpuperf_gone = 1\n"
    project.commit({"pytest.ini": ini})
    project.write({"pytest.ini": ""})
    assert found(project.compare(K, looks=(1,))).restarts


@pytest.mark.parametrize(
    ("conftest", "how"),
    [
        ("raise RuntimeError('no such driver')\n", "exit status 4"),
        ("def pytest_collection_modifyitems(): raise RuntimeError('no such driver')\n", "exit status 3"),
    ],
    ids=["conftest", "collection"],
)
def test_side_that_cannot_start_is_not_restarted(project: Project, conftest: str, how: str) -> None:
    project.commit({"conftest.py": conftest})
    project.write({"conftest.py": ""})
    paired = project.compare(K)
    assert reason(paired).startswith(f"the process with the code of {paired.commit} ended with {how}: ")
    assert "no such driver" in reason(paired)
    assert len(paired.notices) == 1


def test_program_left_running_does_not_block_the_run(project: Project) -> None:
    left = project.root.parent / "left"
    project.commit_test(f"""
        import os, pathlib

        def test_k(gpuperf):
            if (child := os.fork()) == 0:
                __import__("time").sleep(60)
            pathlib.Path({str(left)!r}).write_text(str(child))
            os._exit(3)
        """)
    begin = time.monotonic()
    assert "exit status 3" in reason(project.compare(K, looks=(1,)))
    assert time.monotonic() - begin < 20
    os.kill(int(left.read_text()), signal.SIGKILL)
