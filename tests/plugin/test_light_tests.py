"""Unit tests start without the slow imports."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SLOW = ("torch", "triton", "scipy")
NEED_THEM = re.compile(r"^\s*(import|from) (torch|triton|scipy)|importorskip\(.(torch|triton)", re.MULTILINE)
BY_MODULES = {
    "test_audit.py",
    "test_doctor.py",
    "test_kernels_batch.py",
    "test_recorded_blocks.py",
    "test_timer_bounds.py",
}


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
    files = {path.name: path.read_text(encoding="utf-8") for path in ROOT.glob("tests/unit/test_*.py")}
    needing = BY_MODULES | {name for name, text in files.items() if NEED_THEM.search(text)}
    light = [f"tests/unit/{name}" for name in sorted(files.keys() - needing)]
    assert len(light) > len(needing)
    assert slow_imports("--collect-only", *light) == []
