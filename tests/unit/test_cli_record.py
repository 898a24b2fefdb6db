from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from command_line import gpuperf
from pytest_gpuperf.records import GpuInfo, Run
from pytest_gpuperf.records.run_store import RunStore, newest_recordings
from run_builders import H200, measured, one_test, record, run

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result


def add(project: Path, added: Run, *args: str) -> Result:
    RunStore(project / ".gpuperf").write(added)
    return gpuperf("record", added.id, *args)


def named(project: Path) -> list[str]:
    return [recorded.id for recorded in newest_recordings(project / "baselines")]


def of_tests(id: str, *names: str, gpu: GpuInfo = H200) -> Run:
    tests = [record(f"t/test_a.py::{name}", main=measured()) for name in names]
    return run(*tests, id=id, started_at=f"2026-11-2{len(id)}", gpu=gpu)


def test_run_becomes_a_recording_of_its_gpu(project: Path) -> None:
    result = add(project, one_test())
    path = "baselines/nvidia-h200/recordings/20261120-173012-3f9a.json"
    assert result.output == f"wrote {path} (1 test)\n"
    assert newest_recordings(project / "baselines") == [one_test()]


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (run(record(main=measured()), complete=False), "was interrupted"),
        (run(record(main=measured(correct=False))), "a test that failed"),
        (run(record(main=measured(), failure="RuntimeError")), "a test that failed"),
        (run(), "holds no test"),
    ],
)
def test_incomplete_or_failed_run_is_refused(project: Path, bad: Run, said: str) -> None:
    result = add(project, bad)
    assert result.exit_code == 2
    assert said in result.output
    assert named(project) == []


def test_right_tests_of_an_interrupted_run_are_stored_if_asked(project: Path) -> None:
    right, wrong = (
        record("t/test_a.py::test_a", main=measured()),
        record("t/test_a.py::test_b", failure="Error"),
    )
    assert add(project, run(right, wrong, complete=False), "--incomplete").exit_code == 0
    (stored,) = newest_recordings(project / "baselines")
    assert stored.complete
    assert [test.nodeid for test in stored.tests] == [right.nodeid]


def test_superseded_recording_stays_by_default(project: Path) -> None:
    add(project, of_tests("1", "a"))
    assert "superseded, --replace drops it: " in add(project, of_tests("22", "a", "b")).output
    assert named(project) == ["22", "1"]


def test_replace_deletes_superseded_recordings(project: Path) -> None:
    a100 = GpuInfo(name="NVIDIA A100", slug="nvidia-a100")
    add(project, of_tests("1", "a"))
    add(project, of_tests("1", "a", gpu=a100))
    add(project, of_tests("22", "other"))
    assert (
        "dropped baselines/nvidia-h200/recordings/1.json"
        in add(project, of_tests("333", "a", "b"), "--replace").output
    )
    assert [(one.id, one.environment.gpu.slug) for one in newest_recordings(project / "baselines")] == [
        ("333", "nvidia-h200"),
        ("22", "nvidia-h200"),
        ("1", "nvidia-a100"),
    ]


def test_command_loads_no_heavy_module() -> None:
    import subprocess
    import sys

    code = "import sys, pytest_gpuperf.cli; print(sorted({'torch', 'numpy', 'pandas'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
