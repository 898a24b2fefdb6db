"""Unit tests start without the slow imports."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SLOW = ("torch", "triton", "scipy")
NEED_THEM = {
    "test_accuracy.py",
    "test_audit.py",
    "test_batches.py",
    "test_call_states.py",
    "test_captured.py",
    "test_correctness.py",
    "test_correctness_arrays.py",
    "test_correctness_comparison.py",
    "test_cupti_counters.py",
    "test_error_in_ulp.py",
    "test_footprint.py",
    "test_fuzz.py",
    "test_gpu_info.py",
    "test_in_turn.py",
    "test_interpreted_kernels.py",
    "test_kept.py",
    "test_kernels_batch.py",
    "test_l2.py",
    "test_launched_code.py",
    "test_live_source.py",
    "test_looks.py",
    "test_other_values.py",
    "test_output_types.py",
    "test_prepared.py",
    "test_process_state.py",
    "test_range_profiler.py",
    "test_rank_timing.py",
    "test_recorded_blocks.py",
    "test_red_zones.py",
    "test_single_calls.py",
    "test_stale_outputs.py",
    "test_stamps.py",
    "test_static_triton.py",
    "test_stream_order.py",
    "test_suite_encoder.py",
    "test_suite_kernels.py",
    "test_suite_products.py",
    "test_timer_bounds.py",
    "test_timing.py",
    "test_trace_capture.py",
    "test_trial_problems.py",
    "test_variance.py",
    "test_verification.py",
}
"""Tests that import torch, Triton or SciPy."""


def slow_imports(*arguments: str) -> list[str]:
    """Run pytest in a new process and return its slow imports."""
    code = (
        f"import json, sys, pytest; code = pytest.main(sys.argv[1:]); "
        f"print(json.dumps([name for name in {SLOW} if name in sys.modules])); sys.exit(code)"
    )
    command = [sys.executable, "-c", code, "-q", "-p", "no:cacheprovider", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    found: list[str] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_test_of_limits_imports_nothing_slow() -> None:
    assert slow_imports("tests/unit/test_limits.py") == []


def test_unit_tests_import_torch_only_if_needed() -> None:
    files = {path.name for path in ROOT.glob("tests/unit/test_*.py")}
    assert files >= NEED_THEM
    light = [f"tests/unit/{name}" for name in sorted(files - NEED_THEM)]
    assert slow_imports("--collect-only", *light) == []
