"""Runs of the suite that `gpuperf init` writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from command_line import gpuperf
from run_builders import measured, profile, record, run
from run_results import expect

if TYPE_CHECKING:
    from runs_of_pytest import AddRecording

SUITE = "perf/test_perf_example.py"


@pytest.fixture(autouse=True)
def _suite(pytester: pytest.Pytester) -> None:
    gpuperf("init", str(pytester.path))


def replayed(add_recording: AddRecording, throughput: float) -> None:
    of_its_kernels = replace(profile({"memory_throughput": throughput}), regex="elementwise_kernel")
    main_ = replace(measured(5.3), profile=of_its_kernels)
    shapes = ((8192, 8192), (8191, 4099))
    add_recording(run(*(record(f"{SUITE}::test_square[{shape}]", main=main_) for shape in shapes)))


@pytest.mark.usefixtures("forked_runs")
def test_suite_replays_its_recording(pytester: pytest.Pytester, add_recording: AddRecording) -> None:
    replayed(add_recording, 86.0)
    pytester.runpytest_subprocess("--gpuperf", "perf").assert_outcomes(passed=2)


@pytest.mark.usefixtures("forked_runs")
def test_limit_of_the_suite_can_fail(pytester: pytest.Pytester, add_recording: AddRecording) -> None:
    replayed(add_recording, 40.0)
    expect(pytester.runpytest_subprocess("--gpuperf", "perf"), "*memory_throughput*40*", failed=2)


@pytest.mark.usefixtures("forked_runs")
def test_suite_without_gpu_and_recording_names_the_next_step(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_subprocess("--gpuperf", "perf", "-k", "8191")
    result.assert_outcomes(failed=1, deselected=1)
    [line] = [line for line in result.outlines if "to replay instead" in line]
    assert line.endswith(
        "; type `pytest --gpuperf` and `gpuperf record` on a machine with a GPU, then commit baselines/"
    )
    assert "def test_square" not in result.stdout.str()


@pytest.mark.usefixtures("forked_runs")
def test_suite_is_skipped_by_plain_pytest(pytester: pytest.Pytester) -> None:
    pytester.runpytest_subprocess("--strict-markers").assert_outcomes(skipped=2)


@pytest.mark.parametrize("missing", ["torch", "pytest_gpuperf"])
def test_suite_is_skipped_if_a_package_is_missing(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    pytester.makepyfile(test_mine="def test_mine():\n    pass\n")
    (pytester.path / "sitecustomize.py").write_text(f"import sys\nsys.modules['{missing}'] = None\n")
    monkeypatch.setenv("PYTHONPATH", str(pytester.path), prepend=":")
    monkeypatch.delenv("PYTEST_PLUGINS", raising=False)
    options = ("-p", "no:gpuperf", "--strict-markers") if missing == "pytest_gpuperf" else ()
    pytester.runpytest_subprocess(*options).assert_outcomes(passed=1, skipped=1)
