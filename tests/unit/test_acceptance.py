from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpuperf.baseline.acceptance import accept, plan
from pytest_gpuperf.baseline.store import BaselineStore
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.records import (
    Accuracy,
    Correctness,
    LaunchedCode,
    LaunchedKernel,
    Measurement,
    Run,
    TestRecord,
)
from run_builders import NODEID, measured, one_test, profile, queued, record, run
from session_builders import content as content_of

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_gpuperf.baseline.accepted_measurement import Which


@pytest.fixture
def store(tmp_path: Path) -> BaselineStore:
    return BaselineStore(tmp_path / "baselines")


def accepted(store: BaselineStore, measured_run: Run, which: Which = "all", **kwargs: Any) -> dict[str, Any]:
    """Accept a run and return the content of the file."""
    accept(measured_run, store, which, 5.0, **kwargs)
    return content_of(store)


def edit(store: BaselineStore, **hand_made: Any) -> None:
    changed = content_of(store)
    changed["tests"][NODEID].update(hand_made)
    store.path("nvidia-h200", "test_square").write_text(json.dumps(changed))


def test_first_run_makes_the_file(store: BaselineStore) -> None:
    content = accepted(store, one_test(time_us=5.299994, counters={"sm_throughput": 77.0449}))
    session = {"run": "20261120-173012-3f9a", "time_us": 5.3, "spread_pct": 0.1, "sm_clock_mhz": 1980}
    main = {
        "time": {"mode": "hot", "sessions": [session]},
        "kernels": ["square_kernel"],
        "counters": {"sm_throughput": 77},
        "counters_run": "20261120-173012-3f9a",
        "launches": "all",
    }
    assert content == {
        "schema": 1,
        "gpu": {"name": "NVIDIA H200", "slug": "nvidia-h200"},
        "runs": {
            "20261120-173012-3f9a": {
                "commit": "c0ffee1234",
                "dirty": False,
                "date": "2026-11-20T17:30:12+00:00",
                "gpu_uuid": "GPU-1",
                "toolchain": {"gpuperf": "0.1.0", "triton": "3.6"},
            }
        },
        "tests": {NODEID: {"measurements": {"main": main}}},
    }


def test_tests_of_one_stem_in_two_folders_do_not_collide(store: BaselineStore) -> None:
    tests = [record(f"{folder}/test_square.py::t", main=measured()) for folder in "ab"]
    content = accepted(store, run(*tests))
    assert list(content["tests"]) == ["a/test_square.py::t", "b/test_square.py::t"]


def test_new_leaves_known_tests_alone(store: BaselineStore) -> None:
    accepted(store, run(record(main=measured(1.0))))
    content = accepted(store, run(record(main=measured(9.0), other=measured(2.0)), id="second"), which="new")
    times = {
        label: entry["time"]["sessions"][0]["time_us"]
        for label, entry in content["tests"][NODEID]["measurements"].items()
    }
    assert times == {"main": 1, "other": 2}


@pytest.mark.parametrize(
    ("now", "taken"),
    [
        (measured(5.31, {"sm_throughput": 50.4}), False),
        (measured(6.0, {"sm_throughput": 50.0}), True),
        (measured(4.0, {"sm_throughput": 50.0}), True),
        (measured(5.3, {"sm_throughput": 60.0}), True),
        (measured(5.3, {"sm_throughput": 50.0, "waves": 1.0}), True),
        (measured(5.3, {"sm_throughput": 50.0}, "other_kernel"), True),
        (measured(5.3, {"sm_throughput": 50.0}, mode="cold"), True),
    ],
)
def test_changed_takes_values_beyond_their_tolerance(store: BaselineStore, now: Any, taken: bool) -> None:
    accepted(store, one_test(time_us=5.3, counters={"sm_throughput": 50.0}))
    content = accepted(store, run(record(main=now), id="second"), which="changed")
    assert ("second" in content["runs"]) == taken


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (measured(None, {"sm_throughput": 50.0}), measured(5.3, {"sm_throughput": 50.0})),
        (measured(5.3), measured(5.3, {"sm_throughput": 50.0})),
    ],
    ids=["no time", "no counters"],
)
def test_new_takes_what_has_no_baseline(store: BaselineStore, before: Measurement, now: Measurement) -> None:
    accepted(store, run(record(main=before)))
    second = run(record(main=now), id="second")
    assert [entry.kind for entry in plan(second, store, "all", 5.0).entries] == ["new"]
    assert "second" in accepted(store, second, which="new")["runs"]


def test_new_takes_only_new_parts_and_hides_no_regression(store: BaselineStore) -> None:
    accepted(store, one_test(time_us=5.3))
    second = run(record(main=measured(9.0, {"sm_throughput": 50.0})), id="second")
    main = accepted(store, second, which="new")["tests"][NODEID]["measurements"]["main"]
    assert (main["time"]["sessions"][0]["time_us"], main["counters"]) == (5.3, {"sm_throughput": 50})


@pytest.mark.parametrize("now", [queued("it synchronises"), measured(9.0, mode="cold")])
def test_new_leaves_a_time_of_another_mode(store: BaselineStore, now: Measurement) -> None:
    accepted(store, one_test(time_us=5.3))
    second = run(record(main=now), id="second")
    assert plan(second, store, "new", 5.0).entries == ()
    assert [entry.kind for entry in plan(second, store, "changed", 5.0).entries] == ["changed"]


def test_tolerance_comes_from_file_then_test_then_session(store: BaselineStore) -> None:
    accepted(store, one_test(time_us=5.0))
    tolerant = run(msgspec.structs.replace(record(main=measured(6.0)), tolerance_pct=25.0))
    assert plan(tolerant, store, "changed", 5.0).entries == ()
    edit(store, tolerance_pct=10)
    assert len(plan(tolerant, BaselineStore(store.root), "changed", 5.0).entries) == 1


def test_values_of_a_run_that_no_longer_serves_are_forgotten(store: BaselineStore) -> None:
    accepted(store, one_test(time_us=5.3, counters={"sm_throughput": 50.0}))
    unread = msgspec.structs.replace(measured(6.0), profile=profile({}, unavailable="no ncu"))
    content = accepted(store, run(record(main=unread), id="second"))
    # The second run could not read counters, so the counters of the first run and its note stay.
    assert sorted(content["runs"]) == ["20261120-173012-3f9a", "second"]
    assert content["tests"][NODEID]["measurements"]["main"]["counters"] == {"sm_throughput": 50}
    content = accepted(store, run(record(main=measured(7.0, {"sm_throughput": 50.0})), id="third"))
    assert list(content["runs"]) == ["third"]


@pytest.mark.parametrize(
    ("test", "why"),
    [
        (record(main=measured(5.0, correct=False)), "the output is wrong"),
        (record(main=measured(5.0), other=measured(5.0, correct=False)), "the output is wrong"),
        (record(main=measured(5.0), failure="RuntimeError"), "the test failed: RuntimeError"),
        (
            record(main=Measurement(profile=profile({}, unavailable="no ncu"))),
            "neither a time nor counters were measured",
        ),
        (record(), "nothing was measured"),
    ],
)
def test_wrong_output_is_never_accepted(store: BaselineStore, test: TestRecord, why: str) -> None:
    result = accept(run(test), store, "all", 5.0)
    assert [(entry.kind, entry.lines) for entry in result.entries] == [("refused", (why,))]
    assert not store.root.exists()


@pytest.mark.parametrize("value", ["", "false", "0"])
def test_ci_variable_set_to_false_is_ignored(
    store: BaselineStore, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("CI", value)
    assert accept(one_test(), store, "all", 5.0).files


COUNTERS = st.fixed_dictionaries(
    {},
    optional={
        "sm_throughput": st.floats(0, 1000),
        "instructions": st.floats(0, 1e12),
        "waves": st.floats(0, 1e12),
        "registers_per_thread": st.integers(0, 255),
        "a__raw.sum": st.floats(0, 1e12),
    },
)
MEASUREMENTS = st.builds(measured, st.floats(1e-3, 1e9), COUNTERS)
RECORDS = st.builds(
    lambda name, measurements: TestRecord(nodeid=f"suites/test_square.py::{name}", measurements=measurements),
    st.text(min_size=1, max_size=5),
    st.dictionaries(st.text(max_size=5), MEASUREMENTS, min_size=1, max_size=2),
)
RUNS = st.lists(RECORDS, min_size=1, max_size=3, unique_by=lambda test: test.nodeid).map(
    lambda tests: run(*tests)
)


@given(RUNS)
def test_accepting_the_same_run_again_changes_no_byte(
    tmp_path_factory: pytest.TempPathFactory, measured_run: Run
) -> None:
    store = BaselineStore(tmp_path_factory.mktemp("project") / "baselines")
    accepted(store, measured_run)
    path = store.path("nvidia-h200", "test_square")
    before = path.read_bytes()
    assert plan(measured_run, store, "changed", 0.1).entries == ()
    assert accept(measured_run, store, "all", 5.0).files == {}
    assert path.read_bytes() == before


@given(
    st.fixed_dictionaries(
        {"note": st.text(min_size=1), "limits": st.sampled_from([{"time_us": "<= 9"}, ["time_us <= 9"]])},
        optional={"tolerance_pct": st.floats(1, 50)},
    ),
    st.floats(1, 100),
)
def test_what_was_made_by_hand_survives_an_update(
    tmp_path_factory: pytest.TempPathFactory, hand_made: dict[str, Any], time_us: float
) -> None:
    store = BaselineStore(tmp_path_factory.mktemp("project") / "baselines")
    accepted(store, one_test(time_us=5.0))
    edit(store, **hand_made)
    content = accepted(store, run(record(main=measured(time_us)), id="second"))
    assert content["tests"][NODEID]["measurements"]["main"]["time"]["sessions"][-1]["run"] == "second"
    assert content["tests"][NODEID].items() >= hand_made.items()


def test_runs_of_one_id_that_differ_are_refused(store: BaselineStore) -> None:
    shard, merged = run(record(NODEID, main=measured(5.3))), run(record(NODEID, main=measured(5.4)))
    with pytest.raises(GpuperfError, match="and differ"):
        plan([shard, shard, merged], store, "new", 0.0)


def test_test_that_only_checks_needs_no_baseline(store: BaselineStore) -> None:
    result = accept(run(record(main=measured(None))), store, "all", 5.0)
    assert (result.entries, result.files) == ((), {})


def test_counters_that_are_not_finite_are_left_out(store: BaselineStore) -> None:
    counters = {"instructions": float("nan"), "dram_bytes": float("inf"), "registers_per_thread": 32.0}
    content = accepted(store, one_test(counters=counters))
    assert content["tests"][NODEID]["measurements"]["main"]["counters"] == {"registers_per_thread": 32}


def accuracy(rms_ulp: float, dtype: str = "float32", **other: Any) -> Accuracy:
    return Accuracy(reference="float64", dtype=dtype, elements=10**6, rms_ulp=rms_ulp, **other)


def checked(error: Accuracy, id: str = "20261120-173012-3f9a") -> Run:
    correctness = Correctness(passed=True, accuracy=error)
    return run(record(main=Measurement(correctness=correctness)), id=id)


@pytest.mark.parametrize(
    ("rms_ulp", "dtype", "kind", "line"),
    [
        (0.29, "float32", "refreshed", ""),
        (9.0, "float32", "changed", "rms_ulp 0.289 -> 9"),
        (0.01, "float32", "changed", "rms_ulp 0.289 -> 0.0100"),
        (0.01, "float16", "changed", "the accuracy is of other types"),
    ],
)
def test_changed_error_is_accepted_beyond_its_tolerance(
    store: BaselineStore, rms_ulp: float, dtype: str, kind: str, line: str
) -> None:
    accepted(store, checked(accuracy(0.2887)))
    (entry,) = plan(checked(accuracy(rms_ulp, dtype), "2"), store, "all", 5.0).entries
    assert entry.kind == kind
    assert line in entry.lines or not line


def test_errors_of_each_output_are_kept_and_accepted(store: BaselineStore) -> None:
    def both(second: float) -> Accuracy:
        return accuracy(9.0, output="output[0]", others=(accuracy(second, output="output[1]"),))

    before = accepted(store, checked(both(0.288675)))
    (other,) = before["tests"][NODEID]["measurements"]["main"]["accuracy"]["others"]
    assert other["rms_ulp"] == 0.2887
    (entry,) = plan(checked(both(7.0), "2"), store, "all", 5.0).entries
    assert (entry.kind, "rms_ulp of output[1] 0.289 -> 7" in entry.lines) == ("changed", True)


def test_error_joins_a_baseline_without_one(store: BaselineStore) -> None:
    accepted(store, one_test(time_us=5.3))
    (entry,) = plan(checked(accuracy(0.3), "2"), store, "new", 5.0).entries
    assert (entry.kind, entry.lines) == ("new", ("new: accuracy",))


def test_code_is_that_of_the_newest_session(store: BaselineStore) -> None:
    code = LaunchedCode(kernels=(LaunchedKernel(name="square_kernel", code="ab"),), driver="580.1")
    stored = [
        accepted(store, run(record(main=msgspec.structs.replace(measured(), code=found)), id=name))
        for name, found in (("run-1", code), ("run-2", None))
    ]
    first, second = (content["tests"][NODEID]["measurements"]["main"] for content in stored)
    assert first["code"] == {"kernels": [{"name": "square_kernel", "code": "ab"}], "driver": "580.1"}
    assert "code" not in second
