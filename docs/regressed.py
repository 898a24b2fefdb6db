"""A project whose kernel got slower, for the README's picture: run `python -m docs.regressed` on a GPU.

Its commits are real: a kernel with the README's test, the baseline of one run, and smaller blocks, which the
last run finds by timing both codes in turn. The command writes what that run needs to be replayed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_gpuperf.processes.git import run_git
from pytest_gpuperf.records.files import write_files
from pytest_gpuperf.records.run_store import STATE_FOLDER, RunStore, encode_run, load_run

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).parent.parent
RUN = ROOT / "docs" / "regressed_run.json"
BASELINE = ROOT / "docs" / "regressed_baseline.json"
KERNEL = """\
import torch
import triton
import triton.language as tl


@triton.jit
def square_kernel(output, input, size, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(input + at, mask=at < size)
    tl.store(output + at, values * values, mask=at < size)


def square(x):
    output = torch.empty_like(x)
    square_kernel[(triton.cdiv(x.numel(), {block}),)](output, x, x.numel(), BLOCK={block})
    return output
"""
BEFORE, AFTER = 1024, 128
"""Elements of a block before and after the change: eight for a thread, and one."""
TEST = """\
import torch
from kernels import square


def test_square(gpuperf):
    x = torch.randn(4096, 8192, device=gpuperf.device)
    gpuperf(square, x, expected=lambda x: x.double().square(), bytes=2 * x.nbytes)
"""
OTHER_FILES = {
    "pyproject.toml": "[tool.pytest.ini_options]\n",
    ".gitignore": "__pycache__/\n.pytest_cache/\n.gpuperf/\n",
    "perf/test_square.py": TEST,
}


def files(block: int) -> dict[str, str]:
    """Return the text of the project's files, with blocks of so many elements."""
    return {**OTHER_FILES, "perf/kernels.py": KERNEL.format(block=block)}


def write(project: Path, contents: Mapping[str, str]) -> None:
    """Write files of the project."""
    for name, text in contents.items():
        path = project / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")


def record() -> None:
    """Make the project, measure both commits, and store the run and the baseline.

    Raises:
        SystemExit: A run ended as it should not.
    """
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder)
        run_git(project, "init", "-q", "-b", "main")
        _commit(project, files(BEFORE))
        _measure(project, "--gpuperf-update=all", status=0)
        _commit(project, {})
        _commit(project, files(AFTER))
        output = _measure(project, "--gpuperf-strict", status=1)
        run = load_run(RunStore(project / STATE_FOLDER).resolve())
        settlement = run.tests[0].measurements["main"].settlement
        if settlement is None or settlement.how != "in turn":
            raise SystemExit(f"expected a slowdown that was settled in turn, found:\n{output}")
        [baseline] = project.glob("baselines/*/test_square.json")
        write_files({RUN: encode_run(run), BASELINE: baseline.read_bytes()})


def _commit(project: Path, contents: Mapping[str, str]) -> None:
    write(project, contents)
    run_git(project, "add", "--all")
    run_git(project, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "Change")


def _measure(project: Path, option: str, *, status: int) -> str:
    """Run the test and return the output, which must end with an exit status."""
    environment = {name: value for name, value in os.environ.items() if name not in ("CI", "GITHUB_ACTIONS")}
    environment |= {
        "PYTHONPATH": os.pathsep.join([str(ROOT), environment.get("PYTHONPATH", "")]),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTEST_PLUGINS": "pytest_gpuperf.plugin.entry",
    }
    command = [sys.executable, "-m", "pytest", "--gpuperf", option, "perf"]
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True)  # noqa: S603
    sys.stdout.write(done.stdout + done.stderr)
    if done.returncode != status:
        raise SystemExit(f"expected exit status {status}, found {done.returncode}")
    return done.stdout


if __name__ == "__main__":
    record()
