"""Copies of the project in which things go wrong, so that the pages can show the messages.

No figure is made up: each function rearranges what was recorded, or has the plugin's own code make a record.
"""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path

import msgspec

from docs import regressed as slower
from docs.recorded_history import write_history
from pytest_gpuperf.records import (
    NO_GPU,
    RUN_SCHEMA,
    Environment,
    KernelProfile,
    Measurement,
    Profile,
    Run,
    TestRecord,
)
from pytest_gpuperf.records.baseline import Baseline
from pytest_gpuperf.records.run import STATIC_SOURCE
from pytest_gpuperf.records.run_store import RunStore, encode_run, load_run, newest_recordings, recording_path

ROOT = Path(__file__).parent.parent
CAPTURES = ROOT / "tests" / "data" / "captures"
GALLERY = "test_third_party"
H100, H200 = "nvidia-h100-80gb-hbm3", "nvidia-h200"
SQUARE = "suites/test_square.py::test_square_"
FIRST_TEST = "perf/test_square.py::test_square"
FIRST_TEST_CODE = """\
import torch


def square(x):  # your kernel: Triton, CUDA, torch.compile, any callable
    return x * x


def test_square(gpuperf):
    x = torch.randn(4096, 8192, device=gpuperf.device)
    gpuperf(square, x, expected=lambda x: x.double().square(), bytes=2 * x.nbytes)
"""
"""The test in the README and in the tutorial."""


def copy_project(root: Path, project: Path) -> None:
    """Copy the suites, baselines and recordings of H200s; the largest recording is also the newest run.

    The gallery and other GPUs, whose recordings may be newer, are left out.
    """
    project.mkdir()
    left_out = shutil.ignore_patterns("__pycache__", f"{GALLERY}.*", H100)
    for folder in ("suites", "baselines"):
        shutil.copytree(root / folder, project / folder, ignore=left_out)
    path = project / "pyproject.toml"
    path.write_text((root / path.name).read_text(encoding="utf-8").replace(H100, H200), encoding="utf-8")
    for run in newest_recordings(project / "baselines"):
        if is_of_gallery(run):
            recording_path(project / "baselines", run).unlink()
    store = RunStore(project / ".gpuperf", project / "baselines")
    store.write(load_run(store.resolve()))


def two_h100s(project: Path) -> None:
    """Let the project have recordings of two H100s, too."""
    shutil.copytree(ROOT / "baselines" / H100, project / "baselines" / H100)


def gallery(project: Path) -> None:
    """Let the project have the kernels of other packages, too."""
    shutil.copy(ROOT / "suites" / f"{GALLERY}.py", project / "suites")
    for folder in ("", "recordings"):
        for path in (ROOT / "baselines" / H200 / folder).glob("*.json*"):
            shutil.copy(path, project / "baselines" / H200 / folder)


def is_of_gallery(run: Run) -> bool:
    """Return True if a run has only tests of the gallery, which no page but its own shows."""
    return all(test.nodeid.startswith(f"suites/{GALLERY}.py::") for test in run.tests)


def first_test(project: Path) -> None:
    """Let the test of the tutorial have run once: it is the Triton kernel of the squares."""
    for path in project.glob("baselines/*/test_*.json"):
        path.unlink()
    _first_test(project, "triton[8192]")


def only_perf(project: Path) -> None:
    """Leave only the configuration, as in a new project."""
    for folder in ("suites", "baselines", ".gpuperf"):
        shutil.rmtree(project / folder)
    (project / "perf").mkdir()


def first_test_on_h100(project: Path) -> None:
    """Let the test of the tutorial have run once, on an H100."""
    shutil.rmtree(project / "baselines")
    two_h100s(project)
    first_test(project)
    path = project / "pyproject.toml"
    path.write_text(path.read_text(encoding="utf-8").replace(H200, H100), encoding="utf-8")


def first_test_slower(project: Path) -> None:
    """Give the test of the tutorial a baseline, and replace the Triton kernel by the CUDA kernel since."""
    for path in project.glob("baselines/*/test_*.json"):
        content = json.loads(path.read_bytes())
        test = content["tests"].get(f"{SQUARE}triton[8192]")
        path.unlink()
        if test:
            test.pop("limits", None)
            path.write_text(json.dumps(content | {"tests": {FIRST_TEST: test}}), encoding="utf-8")
    _first_test(project, "cuda[8192]")


def regressed(project: Path) -> None:
    """Leave only the project whose kernel got slower, after the run that found it."""
    shutil.rmtree(project)
    run = load_run(slower.RUN)
    recordings = recording_path(project / "baselines", run).parent
    recordings.mkdir(parents=True)
    shutil.copy(slower.BASELINE, recordings.parent / "test_square.json")
    slower.write(project, slower.files(slower.AFTER))
    _write(project, run)


def _first_test(project: Path, name: str) -> None:
    (project / "perf").mkdir()
    (project / "perf" / "test_square.py").write_text(FIRST_TEST_CODE, encoding="utf-8")
    runs = newest_recordings(project / "baselines")
    run, test = next((run, one) for run in runs for one in run.tests if one.nodeid == SQUARE + name)
    measured = test.measurements["main"]
    assert measured.profile is not None
    # The test names no kernels; the call launches only this one.
    measured = msgspec.structs.replace(measured, profile=msgspec.structs.replace(measured.profile, regex=""))
    test = msgspec.structs.replace(test, nodeid=FIRST_TEST, measurements={"main": measured})
    _write(project, msgspec.structs.replace(run, tests=(test,)))


def compiled(project: Path) -> None:
    """Make the run behind the baseline of the compiled kernels the newest run."""
    path = project / "baselines" / STATIC_SOURCE / "test_static.json"
    baseline = msgspec.json.decode(path.read_bytes(), type=Baseline)
    [(run_id, note)] = baseline.runs.items()
    tests = tuple(
        TestRecord(
            nodeid=nodeid,
            measurements={
                label: Measurement(
                    profile=Profile(
                        kernels=tuple(KernelProfile(name=name) for name in known.kernels),
                        combined=known.counters,
                        source=STATIC_SOURCE,
                    )
                )
                for label, known in test.measurements.items()
            },
        )
        for nodeid, test in baseline.tests.items()
    )
    environment = Environment(gpu=NO_GPU, toolchain=note.toolchain, commit=note.commit, dirty=note.dirty)
    run = Run(schema=RUN_SCHEMA, id=run_id, started_at=note.date, environment=environment, tests=tests)
    # The recording may be newer.
    shutil.rmtree(project / ".gpuperf")
    RunStore(project / ".gpuperf").write(run)


def history(project: Path) -> None:
    """Give the project the history of another one."""
    write_history(ROOT, project)


def fuzzed(project: Path) -> None:
    """Let the test of the page have run on an H200."""
    for path in project.glob("baselines/*/*.json"):
        path.unlink()
    (project / "perf").mkdir()
    _write(project, load_run(CAPTURES / "fuzz" / "run.json"))


def ncu_files(project: Path) -> None:
    """Add files that ncu wrote on an H200, under short names."""
    for name, packed in {
        "kernels.ncu-rep": "triton_square_gemm_set_full.ncu-rep.gz",
        "before.ncu-rep": "profiling_pass/report.ncu-rep.gz",
        "raw.csv": "torch_mixed_raw_wide.csv.gz",
        "details.csv": "torch_mixed_details_long.csv.gz",
    }.items():
        (project / name).write_bytes(gzip.decompress((CAPTURES / packed).read_bytes()))


def nothing_measured(project: Path) -> None:
    """Add ncu's files to a clone, which has a recording and no run."""
    ncu_files(project)
    shutil.rmtree(project / ".gpuperf")


def _write(project: Path, run: Run) -> None:
    recording_path(project / "baselines", run).write_bytes(encode_run(run))
    RunStore(project / ".gpuperf").write(run)
