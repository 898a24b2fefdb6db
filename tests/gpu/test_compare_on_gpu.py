"""`gpuperf.compare` on a real GPU: kernels with loops of more or fewer steps."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from steps_kernel import KERNEL

if TYPE_CHECKING:
    from pathlib import Path

TESTS = """
from functools import partial

import pytest

@pytest.mark.parametrize("n", [STEPS])
def test_steps(gpuperf, n):
    x = torch.rand(132 * 8 * 256, device=gpuperf.device)
    fns = {"more": partial(steps, n=n * 21 // 20), "same": partial(steps, n=n), "fewer": partial(steps, n=n)}
    # After so many steps every value has converged.
    found = gpuperf.compare(fns, x, expected=lambda x: torch.full_like(x, 500.0), rtol=1e-3, atol=1e-3)
    assert 1.04 < found["fewer"].low <= found["fewer"].value <= found["fewer"].high < 1.06
    assert found["fewer"].high - found["fewer"].low < 0.02
    gpuperf.limit("more / same >= 1.04", "same / more <= 0.96", "LIMIT")
"""


@pytest.mark.parametrize(
    ("limit", "verdict"), [("more / fewer >= 1.03", "new"), ("more / fewer >= 1.08", "limit")]
)
def test_ratio_of_two_kernels_is_limited(pytester: pytest.Pytester, limit: str, verdict: str) -> None:
    tests = TESTS.replace("LIMIT", limit).replace("STEPS", "20_000")
    pytester.makepyfile(test_k=KERNEL.format(steps=0) + tests)
    done = pytester.runpytest_subprocess("--gpuperf", "--gpuperf-counters=off", "--gpuperf-json=found.json")
    found: Path = pytester.path / "found.json"
    assert json.loads(found.read_bytes())["counts"] == {verdict: 1}, done.stdout.str()
    done.stdout.fnmatch_lines(["*in turn: 1.0* times as fast as more (1.0* to 1.0*)"])


def test_short_kernels_are_recorded_by_cupti(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_k="""
        import torch

        def test_k(gpuperf):
            x = torch.rand(1000, device=gpuperf.device)
            found = gpuperf.compare({"a": torch.square, "b": torch.square}, x, expected=torch.square)
            assert 0.9 < found["b"].low < 1.03 and 0.97 < found["b"].high < 1.1
        """
    )
    pytester.runpytest_subprocess("--gpuperf", "--gpuperf-counters=off").assert_outcomes(passed=1)
    [run] = pytester.path.glob(".gpuperf/runs/*/run.json")
    assert json.loads(run.read_bytes())["tests"][0]["measurements"]["b"]["in_turn"]["recorded"]
