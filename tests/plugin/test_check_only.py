"""`gpuperf_check = always`: runs without `--gpuperf` check outputs, on the CPU as if it were a GPU."""

from __future__ import annotations

import pytest

from run_results import expect

TESTS = """
import random

import pytest
import torch


@pytest.mark.parametrize("factor", [1.0, 2.0], ids=["right", "wrong"])
def test_square(gpuperf, factor):
    x = torch.ones(8)
    gpuperf.limit("dram_share >= 95")
    measured = gpuperf(lambda x: factor * x * x, x, expected=lambda x: x * x, bytes=64, kernels="square")
    gpuperf.limit(f"time_us <= {1.5 * measured.timing.time_us:.2f}")
    assert gpuperf.trace(torch.square, x).launches == 1
    profile = gpuperf.profile(torch.square, x, label="two")
    assert profile.unavailable or len(profile.kernels) == 2


def test_time(gpuperf):
    gpuperf.time(pytest.fail, "timed")
    assert random.random() == random.Random(gpuperf.seed).random()


@pytest.mark.gpuperf(gpus=2)
def test_ranks(gpuperf):
    raise NotImplementedError


def test_ranks_without_a_number(gpuperf_ranks):
    raise NotImplementedError
"""


@pytest.fixture
def ordinary(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makepyfile(test_k=TESTS)
    pytester.makeini("[pytest]\ngpuperf_check = always\n")
    return pytester


def test_outputs_are_only_checked(ordinary: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_gpuperf.session.live_runner.why_not_live", lambda: "")
    done = ordinary.runpytest_inprocess("-rs")
    done.assert_outcomes(passed=2, failed=1, skipped=2)
    done.stdout.fnmatch_lines(["*test_square?wrong?*", "*run pytest with --gpuperf", "*1 failed, 2 passed*"])
    assert "verdict" not in done.stdout.str()
    assert not (ordinary.path / ".gpuperf").exists()


def test_without_a_gpu_tests_are_skipped(ordinary: pytest.Pytester) -> None:
    expect(ordinary.runpytest_inprocess("-rs"), "*nothing to check with: *", skipped=5)


def test_nothing_heavy_is_imported_before_such_a_test(ordinary: pytest.Pytester) -> None:
    ordinary.makepyfile(
        test_k="""
        import sys

        def test_modules():
            assert {"torch", "numpy", "pytest_gpuperf.session"}.isdisjoint(sys.modules)
        """
    )
    ordinary.runpytest_subprocess().assert_outcomes(passed=1)


def test_invalid_value_fails_the_test(ordinary: pytest.Pytester) -> None:
    done = ordinary.runpytest_inprocess("-ogpuperf_check=allways", "-k", "time")
    expect(done, "*gpuperf_check is 'allways'; expected one of auto, always", errors=1)
