"""`gpuperf init` in an empty repository: measured, accepted, recorded, and replayed without the GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

from command_line import gpuperf

if TYPE_CHECKING:
    import pytest


def test_new_suite_measures_and_replays(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    assert gpuperf("init").exit_code == 0
    measured = pytester.runpytest_subprocess("--gpuperf", "perf", "--gpuperf-update=new")
    measured.assert_outcomes(passed=2)
    assert [path.name for path in pytester.path.glob("baselines/*/*.json")] == ["test_perf_example.json"]
    gpuperf("record", status=0)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    replayed = pytester.runpytest_subprocess("--gpuperf", "perf")
    replayed.assert_outcomes(passed=2)
    replayed.stdout.fnmatch_lines(["*replayed from*"])
