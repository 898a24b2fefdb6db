"""Copies of the project in which things go wrong, so that the pages can show what is said then.

No figure is made up: each function rearranges what was recorded, or has the plugin's own code make a record.
"""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import torch

from pytest_gpuperf.cli.init.plan import plan
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.correctness import check
from pytest_gpuperf.measure.counters.profiling_pass import ProfilingPass
from pytest_gpuperf.measure.cupti.activity import Activity
from pytest_gpuperf.measure.static.kernel import SOURCE
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
from pytest_gpuperf.records.call import Call
from pytest_gpuperf.records.json_files import write_files
from pytest_gpuperf.records.passes import PassFolder
from pytest_gpuperf.records.runs import RunStore, encode_run, newest_recordings, recording_path
from pytest_gpuperf.records.selection import Selection

if TYPE_CHECKING:
    from collections.abc import Callable

CAPTURES = Path(__file__).parent.parent / "tests" / "data" / "captures"
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
    """The suites with their baselines and recordings; the newest recording also as the newest run."""
    project.mkdir()
    for folder in ("suites", "baselines"):
        shutil.copytree(root / folder, project / folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(root / "pyproject.toml", project)
    RunStore(project / ".gpuperf").write(newest_recordings(project / "baselines")[0])


def first_test(project: Path) -> None:
    """The test of the tutorial has run once: the Triton kernel for squares under the name of that test."""
    for path in project.glob("baselines/*/test_*.json"):
        path.unlink()
    _first_test(project, "triton[8192]")


def first_test_slower(project: Path) -> None:
    """The test of the tutorial has a baseline, and the CUDA kernel has replaced the Triton kernel since."""
    for path in project.glob("baselines/*/test_*.json"):
        content = json.loads(path.read_bytes())
        test = content["tests"].get(f"{SQUARE}triton[8192]")
        path.unlink()
        if test:
            test.pop("limits", None)
            path.write_text(json.dumps(content | {"tests": {FIRST_TEST: test}}), encoding="utf-8")
    _first_test(project, "cuda[8192]")


def _first_test(project: Path, name: str) -> None:
    (project / "perf").mkdir()
    (project / "perf" / "test_square.py").write_text(FIRST_TEST_CODE, encoding="utf-8")
    run = newest_recordings(project / "baselines")[0]
    [test] = (test for test in run.tests if test.nodeid == SQUARE + name)
    measured = test.measurements["main"]
    assert measured.profile is not None
    # The test names no kernels; the call launches only this one.
    measured = msgspec.structs.replace(measured, profile=msgspec.structs.replace(measured.profile, regex=""))
    test = msgspec.structs.replace(test, nodeid=FIRST_TEST, measurements={"main": measured})
    _write(project, msgspec.structs.replace(run, tests=(test,)))


def only_largest(project: Path) -> None:
    """Only the largest squares are in the baseline and in the run."""
    _keep(project, "[8192]")


def slower_kernel(project: Path) -> None:
    """As if the Triton kernel, which has the baseline, had been replaced by the CUDA kernel, which runs."""
    _keep(project, "cuda[8192]", "triton[8192]")

    def edit(tests: dict[str, Any]) -> None:
        tests[f"{SQUARE}cuda[8192]"] = tests[f"{SQUARE}triton[8192]"]

    _edit_baseline(project, edit)


def broken_limit(project: Path) -> None:
    """A limit in the baseline file that the CUDA kernel does not reach."""

    def edit(tests: dict[str, Any]) -> None:
        tests[f"{SQUARE}cuda[8192]"]["limits"] = {"memory_throughput": ">= 80"}

    _edit_baseline(project, edit)


def no_baseline(project: Path) -> None:
    """The suite of squares has no baseline yet."""
    next(project.glob("baselines/*/test_square.json")).unlink()
    _keep(project, "[8192]")


def compiled(project: Path) -> None:
    """The run that made the baselines of kernels that were compiled is the newest run."""
    _compiled(_static_baseline(project, "test_static"), project)


def compiled_products(project: Path) -> None:
    """The same of the matrix products on tensor cores."""
    _compiled(_static_baseline(project, "test_static_gemm"), project)


def _static_baseline(project: Path, suite: str) -> Path:
    return project / "baselines" / SOURCE / f"{suite}.json"


def _compiled(path: Path, project: Path) -> None:
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
                        source=SOURCE,
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


def compiled_with_limit(project: Path) -> None:
    """The same, with a limit in the baseline file that a kernel does not keep to."""
    compiled(project)
    path = _static_baseline(project, "test_static")
    content = json.loads(path.read_bytes())
    for nodeid, test in content["tests"].items():
        if "odd_gemm" in nodeid:
            test["limits"] = ["sm_90: spills == 0"]
    path.write_text(json.dumps(content), encoding="utf-8")


def wrong_kernel(project: Path) -> None:
    """The check of a square that leaves out its last column, made on the CPU."""

    def square(x: torch.Tensor) -> torch.Tensor:
        output = torch.empty_like(x)
        output[:, :-1] = x[:, :-1] * x[:, :-1]
        return output

    x = torch.arange(4096 * 781).reshape(4096, 781) / 1024
    result = check(square, (x,), {}, expected=lambda x: x.double().square())
    _edit_recording(
        project, "triton[781]", lambda _: {"correctness": result, "timing": None, "profile": None}
    )


def no_kernel_matched(project: Path) -> None:
    """The counters of a call none of whose kernels matches a misspelled regex."""

    def edit(measured: Measurement) -> dict[str, Any]:
        assert measured.profile is not None
        launched = [Activity(0, 0, kernel.name) for kernel in measured.profile.kernels]
        nodeid = f"{SQUARE}triton[8192]"
        counters = ProfilingPass(PassFolder(project), None)
        counters._ranges[nodeid, "main"] = "profiled"
        try:
            counters.lookup(
                Call(nodeid, "main", square_triton), Selection("sqaure_kernel"), (), lambda: launched
            )
        except GpuperfError as error:
            return {"profile": Profile(unavailable=str(error))}
        raise AssertionError

    def square_triton() -> None:
        """Names the callable."""

    _edit_recording(project, "triton[8192]", edit)


def new_repository(project: Path) -> None:
    """Another project: a package in a git repository, without tests."""
    for path in project.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    (project / ".git").mkdir()
    (project / "pyproject.toml").write_text('[project]\nname = "my-package"\n', encoding="utf-8")


def begun(project: Path) -> None:
    """The same after `gpuperf init`."""
    new_repository(project)
    write_files({piece.path: piece.text.encode() for piece in plan(project) if piece.text is not None})


def ncu_files(project: Path) -> None:
    """Files that ncu wrote on an H200, under names that are short."""
    for name, packed in {
        "kernels.ncu-rep": "triton_square_gemm_set_full.ncu-rep.gz",
        "before.ncu-rep": "profiling_pass/report.ncu-rep.gz",
        "raw.csv": "torch_mixed_raw_wide.csv.gz",
        "details.csv": "torch_mixed_details_long.csv.gz",
    }.items():
        (project / name).write_bytes(gzip.decompress((CAPTURES / packed).read_bytes()))


def nothing_measured(project: Path) -> None:
    """Ncu's files in a clone: there is a recording, and no run."""
    ncu_files(project)
    shutil.rmtree(project / ".gpuperf")


def _keep(project: Path, *names: str) -> None:
    def wanted(nodeid: str) -> bool:
        return any(name in nodeid for name in names)

    for path in project.glob("baselines/*/test_*.json"):
        content = json.loads(path.read_bytes())
        content["tests"] = {nodeid: test for nodeid, test in content["tests"].items() if wanted(nodeid)}
        path.write_text(json.dumps(content), encoding="utf-8")
        if not content["tests"]:
            path.unlink()
    run = newest_recordings(project / "baselines")[0]
    _write(
        project, msgspec.structs.replace(run, tests=tuple(test for test in run.tests if wanted(test.nodeid)))
    )


def _edit_baseline(project: Path, edit: Callable[[dict[str, Any]], None]) -> None:
    path = next(project.glob("baselines/*/test_square.json"))
    content = json.loads(path.read_bytes())
    edit(content["tests"])
    path.write_text(json.dumps(content), encoding="utf-8")


def _edit_recording(project: Path, name: str, edit: Callable[[Measurement], dict[str, Any]]) -> None:
    run = newest_recordings(project / "baselines")[0]
    tests = []
    for test in run.tests:
        if test.nodeid == SQUARE + name:
            measured = test.measurements["main"]
            changed = msgspec.structs.replace(measured, **edit(measured))
            test = msgspec.structs.replace(test, measurements={"main": changed})
        tests.append(test)
    _write(project, msgspec.structs.replace(run, tests=tuple(tests)))


def _write(project: Path, run: Run) -> None:
    recording_path(project / "baselines", run).write_bytes(encode_run(run))
    RunStore(project / ".gpuperf").write(run)
