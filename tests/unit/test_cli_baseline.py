from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from inline_snapshot import snapshot
from msgspec import structs

from command_line import gpuperf
from pytest_gpuperf.records.files import write_files
from pytest_gpuperf.records.run_store import RunStore, encode_run, recording_path
from run_builders import H200, NODEID, measured, one_test, record, run

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_gpuperf.records import Run


def store(project: Path, *runs: Run) -> None:
    for one in runs:
        RunStore(project / ".gpuperf").write(one)


def status() -> Any:
    return json.loads(gpuperf("baseline", "status", "--json").output)


def test_accept_makes_the_newest_run_the_baseline(project: Path) -> None:
    store(project, one_test(time_us=5.3))
    result = gpuperf("baseline", "accept", status=0)
    assert result.output.splitlines()[-1] == "wrote baselines/nvidia-h200/test_square.json (1 test)"


def test_accept_takes_an_artifact_from_anywhere(project: Path) -> None:
    artifact = project / "download"
    artifact.mkdir()
    (artifact / "run.json").write_bytes(encode_run(one_test()))
    assert gpuperf("baseline", "accept", "download").exit_code == 0
    assert (project / "baselines" / "nvidia-h200" / "test_square.json").is_file()


def record_run(project: Path, recorded: Run) -> None:
    write_files({recording_path(project / "baselines", recorded): encode_run(recorded)})


def test_recording_is_found_by_its_id(project: Path) -> None:
    record_run(project, one_test())
    store(project, run(record(main=measured()), id="29990101-000000-0000"))
    result = gpuperf("baseline", "accept", "20261120-173012-3f9a", status=0)
    assert "run 20261120-173012-3f9a, commit c0ffee1" in result.output


@pytest.mark.parametrize("newest", [(), ("latest",)])
def test_recording_is_not_accepted_unnamed(project: Path, newest: tuple[str, ...]) -> None:
    record_run(project, one_test())
    result = gpuperf("baseline", "accept", *newest, status=2)
    assert "there is no run in .gpuperf/runs; measure one with pytest --gpuperf" in result.output


def test_accept_only_new_leaves_the_rest(project: Path) -> None:
    store(project, one_test(time_us=5.3))
    gpuperf("baseline", "accept")
    store(project, run(record(main=measured(9.9)), id="29990101-000000-0000"))
    assert "no baseline changed" in gpuperf("baseline", "accept", "--only", "new").output


@pytest.mark.parametrize("value", ["true", "1", "yes"])
def test_accept_in_ci_is_refused(project: Path, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("CI", value)
    store(project, one_test())
    result = gpuperf("baseline", "accept", status=2)
    assert result.output.startswith("gpuperf: error: the baselines were left as they are, because CI is set")
    assert "download the run.json artifact" in result.output
    assert result.output.endswith("`gpuperf baseline accept run.json` on your machine\n")
    assert not (project / "baselines").exists()


def test_accept_of_an_interrupted_run_needs_a_flag(project: Path) -> None:
    store(project, run(record(main=measured()), complete=False))
    for dry_run in (["--dry-run", "--exit-code"], []):
        assert gpuperf("baseline", "accept", *dry_run).exit_code == 2
    assert gpuperf("baseline", "accept", "--incomplete").exit_code == 0


def test_diff_shows_changes_and_writes_nothing(project: Path) -> None:
    store(project, one_test(time_us=5.3, counters={"l2_hit_rate": 80.0}))
    gpuperf("baseline", "accept")
    path = project / "baselines" / "nvidia-h200" / "test_square.json"
    before = path.read_bytes()
    store(project, run(record(main=measured(5.84, {"l2_hit_rate": 40.0})), id="29990101-000000-0000"))
    result = gpuperf("baseline", "accept", "--dry-run", status=0)
    assert result.output == snapshot("""\
run 29990101-000000-0000, commit c0ffee1, 2026-11-20, NVIDIA H200, compared with
  baselines/nvidia-h200

test                                          effect
-----------------------------------------------------
suites/test_square.py::test_triton[1823x781]  changed
    time_us 5.30 -> 5.84 (+10.2 %)
    sessions 1 -> 1 (the time moved)
    l2_hit_rate 80 -> 40 % (-40.0 points)

1 changed
""")
    found = json.loads(gpuperf("baseline", "accept", "--dry-run", "--json").output)
    assert (found["runs"], found["gpu"], found["missing"]) == (["29990101-000000-0000"], "NVIDIA H200", [])
    assert [(one["label"], one["effect"], len(one["details"])) for one in found["tests"]] == [
        ("main", "changed", 3)
    ]
    assert path.read_bytes() == before


def test_diff_exit_code_tells_whether_something_moved(project: Path) -> None:
    store(project, one_test(time_us=5.3))
    assert gpuperf("baseline", "accept", "--dry-run", "--exit-code").exit_code == 1
    gpuperf("baseline", "accept")
    store(project, run(record(main=measured(5.31)), id="29990101-000000-0000"))
    assert gpuperf("baseline", "accept", "--dry-run", "--exit-code").exit_code == 0
    store(project, run(record(main=measured(5.6)), id="29990102-000000-0000"))
    assert gpuperf("baseline", "accept", "--dry-run", "--exit-code").exit_code == 1


def later(number: int, time_us: float = 5.3, uuid: str = "GPU-1", **measurement: Any) -> Run:
    """Store a run of the same test, some days after the first."""
    return run(
        record(main=measured(time_us, **measurement)),
        id=f"later-{number}",
        started_at=f"2026-11-2{number}T00:00:00Z",
        gpu=structs.replace(H200, uuid=uuid),
    )


def test_accept_takes_several_runs(project: Path) -> None:
    store(project, one_test(time_us=5.3), later(1), later(2))
    assert gpuperf("baseline", "accept", "later-2", "2026", "later-1").output == snapshot("""\
run 20261120-173012-3f9a, commit c0ffee1, 2026-11-20
run later-1, commit c0ffee1, 2026-11-21
run later-2, commit c0ffee1, 2026-11-22, NVIDIA H200, compared with baselines/nvidia-h200

test                                          effect
----------------------------------------------------
suites/test_square.py::test_triton[1823x781]  new
    time 5.30 µs (hot)

1 new, 2 within the tolerance
wrote baselines/nvidia-h200/test_square.json (1 test)
""")


def test_status_counts_sessions_and_cards(project: Path) -> None:
    store(project, later(1), later(2, uuid="GPU-2"))
    other = run(record(f"{NODEID}2", main=measured()), id="other", started_at="2026-11-19T00:00:00Z")
    store(project, other)
    gpuperf("baseline", "accept", "later-1", "later-2")
    gpuperf("baseline", "accept", "other")
    (suite,) = status()
    assert (suite["fewest_sessions"], suite["most_sessions"], suite["cards"]) == (1, 2, 2)
    assert gpuperf("baseline", "status").output == snapshot("""\
  suite        tests  sessions  cards  newest              oldest
-----------------------------------------------------------------------------
nvidia-h200
  test_square      2    1 to 2      2  2026-11-22 c0ffee1  2026-11-19 c0ffee1
""")


def test_tests_that_a_run_leaves_out_are_named_and_those_of_its_files_count(project: Path) -> None:
    names = ("t/test_a.py::kept", "t/test_a.py::old", "u/test_a.py::other")
    kept, *others = (record(name, main=measured()) for name in names)
    store(project, run(kept, *others))
    gpuperf("baseline", "accept")
    store(project, run(kept, id="29990101-000000-0000"))
    assert gpuperf("baseline", "status", "latest").output == snapshot("""\
  suite   tests  sessions  cards  newest
----------------------------------------------------
nvidia-h200
  test_a      3         1      1  2026-11-20 c0ffee1
      not in the run: t/test_a.py::old
      not in the run: u/test_a.py::other
""")
    assert status()[0]["not_in_run"] == []
    missing = gpuperf("baseline", "accept", "--dry-run", "--exit-code", status=1).output
    assert "missing: 1 test with a baseline, such as t/test_a.py::old;" in missing
    gpuperf("baseline", "accept", "--dry-run", "--exit-code", "--partial", status=0)


def test_status_of_an_empty_project(project: Path) -> None:
    assert gpuperf("baseline", "status").output == "no baselines in baselines\n"


@pytest.mark.parametrize("dry_run", [(), ("--dry-run", "--exit-code")])
def test_run_without_tests_is_not_accepted(project: Path, dry_run: tuple[str, ...]) -> None:
    store(project, run())
    assert "has no tests; expected a run that measured" in gpuperf("baseline", "accept", *dry_run).stderr


def test_exit_code_tells_of_tests_that_are_refused(project: Path) -> None:
    store(project, run(record(main=measured(), failure="KeyError")))
    assert gpuperf("baseline", "accept", "--dry-run", "--exit-code").exit_code == 1


def test_status_needs_no_run(project: Path) -> None:
    store(project, one_test())
    gpuperf("baseline", "accept", "--baselines", "elsewhere/baselines")
    output = gpuperf("baseline", "status", "--root", "elsewhere").output
    assert "\nnvidia-h200\n" in output


def test_tolerance_of_the_configuration_decides_what_moved(project: Path) -> None:
    (project / "pytest.ini").write_text("[pytest]\ngpuperf_tolerance = 50\n", encoding="utf-8")
    store(project, one_test(time_us=5.0))
    gpuperf("baseline", "accept")
    store(project, run(record(main=measured(6.0)), id="29990101-000000-0000"))
    assert gpuperf("baseline", "accept", "--dry-run", "--exit-code").exit_code == 0


@pytest.mark.parametrize("value", ["nan", "inf", "1e400", "-1", "ten"])
def test_impossible_tolerance_of_the_configuration_is_an_error(project: Path, value: str) -> None:
    (project / "pytest.ini").write_text(f"[pytest]\ngpuperf_tolerance = {value}\n", encoding="utf-8")
    assert "expected a number from 0 to 1,000" in gpuperf("baseline", "accept", "--dry-run").stderr
