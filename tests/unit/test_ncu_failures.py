"""Explanations of ncu errors."""

from __future__ import annotations

import pytest

from pytest_gpuperf.measure.ncu.ncu_failures import explain


@pytest.mark.parametrize(
    ("output", "advice"),
    [
        (
            "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission",
            "NVreg_RestrictProfilingToAdminUsers=0",
        ),
        ("==ERROR== Profiling failed because a driver resource was unavailable.", "dcgmi profile --pause"),
        ("==ERROR== Failed to create lock file /tmp/nsight-compute-lock", "TMPDIR"),
        ("==ERROR== InterprocessLockFailed", "TMPDIR"),
        ("==ERROR== Cuda driver is not compatible with Nsight Compute.", "gpuperf_ncu"),
        ("==ERROR== Failed to initialize the profiler: LibraryNotLoaded", "outside the sandbox"),
    ],
)
def test_known_failure_says_what_to_do(output: str, advice: str) -> None:
    assert advice in str(explain(output))


def test_unknown_failure_is_quoted() -> None:
    assert explain("==PROF== Connected\n==ERROR== The sky fell.\n") == "ncu says: The sky fell."


def test_output_without_a_failure_has_no_explanation() -> None:
    assert explain("==WARNING== No kernels were profiled.\n") is None


def test_exit_status_of_the_tests_is_not_a_failure_of_ncu() -> None:
    assert explain("==ERROR== The application returned an error code (1).\n") is None
