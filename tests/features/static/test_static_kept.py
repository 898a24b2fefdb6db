"""Files of a run that compiled kernels: separate baselines, and no recording."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from command_line import gpuperf

pytest.importorskip("triton")

from present import present
from pytest_gpuperf.baseline.acceptance import accept as accept_runs
from pytest_gpuperf.baseline.store import BaselineStore
from pytest_gpuperf.records import Measurement
from pytest_gpuperf.records.run_store import RunStore
from pytest_gpuperf.records.static_profiles import profile_of
from run_builders import measured, record, run
from static_builders import NODEID, kernel, static_baseline, write_test

if TYPE_CHECKING:
    from pathlib import Path


def test_a_run_of_both_kinds_goes_into_two_folders(pytester: pytest.Pytester) -> None:
    (pytester.path / ".git").mkdir()
    both = record(NODEID, main=measured(5.3), sm_90=Measurement(profile=profile_of(kernel())))
    store = RunStore(pytester.path / ".gpuperf")
    store.write(run(both, record("test_k.py::test_static", sm_90=Measurement(profile=profile_of(kernel())))))
    assert gpuperf("baseline", "accept").exit_code == 0
    of_gpu = json.loads((pytester.path / "baselines" / "nvidia-h200" / "test_k.json").read_bytes())
    assert {name: list(test["measurements"]) for name, test in of_gpu["tests"].items()} == {NODEID: ["main"]}
    of_none = static_baseline(pytester)["tests"]
    assert of_none.keys() == {NODEID, "test_k.py::test_static"}
    assert [list(test["measurements"]) for test in of_none.values()] == [["sm_90"]] * 2
    assert gpuperf("baseline", "accept", "--dry-run", "--exit-code").exit_code == 0
    suites = json.loads(gpuperf("baseline", "status", "--json").output)
    counted = [(suite["gpu"], suite["suite"], suite["tests"]) for suite in suites]
    assert counted == [("nvidia-h200", "test_k", 1), ("static", "test_k", 2)]


def test_both_kinds_of_one_gpu_are_accepted_together(tmp_path: Path) -> None:
    store = BaselineStore(tmp_path / "baselines", state=tmp_path / ".gpuperf")
    both = record(NODEID, main=measured(5.3), sm_90=Measurement(profile=profile_of(kernel())))
    result = accept_runs([run(both), run(both, id="later")], store, "all", 5.0)
    assert [(entry.label, entry.kind) for entry in result.entries] == [
        ("main", "new"),
        ("sm_90", "new"),
        ("main", "refreshed"),
        ("sm_90", "refreshed"),
    ]
    [of_gpu, of_none] = (present(store.load(slug, "test_k")) for slug in ("nvidia-h200", "static"))
    assert [len(time.sessions) for time in of_gpu.times] == [2]
    assert not of_none.times


def test_recording_brings_back_no_older_compiler(pytester: pytest.Pytester) -> None:
    store = RunStore(pytester.path / ".gpuperf")
    for name, compiler in {"older": "triton 3.6.0", "newer": "triton 3.9.0"}.items():
        compiled = Measurement(profile=profile_of(kernel(compiler=compiler)))
        both = record(NODEID, main=measured(5.3), sm_90=compiled)
        store.write(run(both, record("test_k.py::test_static", sm_90=compiled), id=name))
    assert gpuperf("record", "older").exit_code == 0
    assert gpuperf("baseline", "accept", "newer").exit_code == 0
    (pytester.path / ".gpuperf" / "runs" / "older" / "run.json").unlink()
    shown = json.loads(gpuperf("baseline", "accept", "--dry-run", "--json", "older").output)
    assert [(row["label"], row["effect"]) for row in shown["tests"]] == [("main", "refreshed")]


def test_static_run_cannot_be_recorded(pytester: pytest.Pytester, compiler: dict[str, Any]) -> None:
    write_test(pytester)
    pytester.runpytest("--gpuperf")
    result = gpuperf("record", status=2)
    assert "compiled kernels and measured none, so there is nothing to replay" in result.output
