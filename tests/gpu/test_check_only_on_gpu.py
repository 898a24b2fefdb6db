"""`gpuperf_check = always` in an ordinary run on a real GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

TESTS = """
import pytest
import torch

def almost(x):
    out = torch.empty_like(x)
    out[:-1] = x[:-1] * x[:-1]
    return out

@pytest.mark.parametrize("square", [torch.square, almost])
def test_square(gpuperf, square):
    x = torch.randn(2**20, device=gpuperf.device)
    assert gpuperf(square, x, expected=torch.square).timing.time_us < 0.001
"""


def test_wrong_output_fails_and_nothing_is_timed(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_k=TESTS)
    pytester.makeini("[pytest]\ngpuperf_check = always\n")
    done = pytester.runpytest_subprocess()
    done.assert_outcomes(passed=1, failed=1)
    done.stdout.fnmatch_lines(["*1 of 1048576 elements is never written*"])
    assert not (pytester.path / ".gpuperf").exists()
