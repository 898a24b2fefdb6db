from __future__ import annotations

import gzip
import json
from datetime import datetime, timedelta, timezone
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.records import NO_GPU, Correctness, GpuInfo, Measurement, Run
from pytest_gpuperf.records.files import write_files
from pytest_gpuperf.records.run_store import RunStore, encode_run, load_run, newest_recordings, recording_path
from pytest_gpuperf.session.run_report import RunFile
from run_builders import H200, measured, one_test, record, run

NOW = datetime(2026, 11, 20, 19, 30, 12, tzinfo=timezone(timedelta(hours=2)))


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    return RunStore(tmp_path / ".gpuperf")


def test_ids_are_utc_stamps_that_sort() -> None:
    later = (timedelta(), timedelta(microseconds=20), timedelta(milliseconds=999), timedelta(seconds=1))
    ids = [RunStore.new_id(NOW + delay) for delay in later]
    assert ids[0] == "20261120-173012-0000"
    assert ids == sorted(set(ids))


def test_written_run_is_read_again(store: RunStore) -> None:
    written = one_test(counters={"sm_throughput": 1.0, "occupancy_limiter": "warps"})
    path = store.write(written)
    assert path == store.folder / written.id / "run.json"
    assert load_run(path) == written


def test_git_ignores_the_state_folder(store: RunStore) -> None:
    store.write(one_test())
    assert (store.folder.parent / ".gitignore").read_text(encoding="utf-8") == "*\n"


def test_appended_tests_are_read_like_written_ones(store: RunStore) -> None:
    tests = [record(f"t.py::{name}", main=measured()) for name in "abc"]
    unfinished = run(tests[0], complete=False)
    path = store.write(unfinished)
    for test in tests[1:]:
        store.append(unfinished.id, test)
        assert not load_run(path).complete
    assert path.read_bytes() == encode_run(run(*tests, complete=False))


def test_test_after_a_failed_append_writes_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = RunFile(SimpleNamespace(update="never", state=tmp_path))  # type: ignore[arg-type]
    tests = [record(f"t.py::{name}", main=measured()) for name in "abc"]
    file.add(tests[0], one_test)
    monkeypatch.delattr(RunStore, "append")
    with pytest.raises(AttributeError):
        file.add(tests[1], one_test)
    file.add(tests[2], lambda: run(*tests, id="x"))
    assert load_run(tmp_path / "runs/x/run.json").tests == tuple(tests)


@given(st.data())
def test_a_killed_append_loses_only_its_own_test(data: st.DataObject) -> None:
    tests = [record(f"t.py::{name}", main=measured()) for name in "abc"]
    before, after = (encode_run(run(*tests[:count], complete=False)) for count in (2, 3))
    end = data.draw(st.integers(len(before), len(after) - 1))
    with TemporaryDirectory() as folder:
        path = Path(folder, "run.json")
        path.write_bytes(after[:end])
        assert load_run(path).tests[:2] == tuple(tests[:2])


@given(st.lists(st.floats(), min_size=2, max_size=2), st.text(max_size=5))
def test_nan_and_infinite_differences_are_kept(differences: list[float], nodeid: str) -> None:
    correctness = Correctness(
        passed=False, max_abs_diff=differences[0], max_rel_diff=differences[1], failure="null"
    )
    written = run(record(nodeid, main=Measurement(correctness=correctness)))
    read = msgspec.json.decode(encode_run(written), type=Run, strict=False)
    assert repr(read) == repr(written)


INDENTED = json.dumps(json.loads(encode_run(one_test())), indent=2).encode()


@pytest.mark.parametrize("data", [INDENTED, gzip.compress(encode_run(one_test()))], ids=["by json", "gzip"])
def test_run_that_another_program_wrote_again_is_read(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "run.json"
    path.write_bytes(data)
    assert load_run(path) == one_test()


def test_none_and_latest_are_the_newest_run(store: RunStore) -> None:
    for run_id in ("20261120-000000-ffff", "20261121-000000-0000", "20261119-000000-aaaa"):
        store.write(run(id=run_id))
    assert (
        store.resolve(None) == store.resolve("latest") == store.folder / "20261121-000000-0000" / "run.json"
    )


def test_unique_start_of_an_id_is_enough(store: RunStore) -> None:
    for run_id in ("20261120-000000-ffff", "20261121-000000-0000"):
        store.write(run(id=run_id))
    assert store.resolve("20261120").parent.name == "20261120-000000-ffff"
    with pytest.raises(GpuperfError, match="could be any of 20261120-000000-ffff, 20261121-000000-0000"):
        store.resolve("2026")


def test_id_that_starts_another_one_is_that_run(store: RunStore) -> None:
    for run_id in ("a", "ab"):
        store.write(run(id=run_id))
    assert store.resolve("a").parent.name == "a"


@pytest.mark.parametrize("place", ["run.json", "run.json.gz", "20261120-000000-ffff/run.json"])
def test_folder_of_an_artifact_is_found(store: RunStore, tmp_path: Path, place: str) -> None:
    path = tmp_path / "artifact" / place
    path.parent.mkdir(parents=True)
    path.touch()
    assert store.resolve(str(path)) == path
    assert store.resolve(str(tmp_path / "artifact")) == path


def test_folder_with_two_runs_is_ambiguous(store: RunStore, tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.json").touch()
    with pytest.raises(GpuperfError, match="more than one run"):
        store.resolve(str(tmp_path))


def test_newest_recording_replaces_runs_without_a_gpu(tmp_path: Path) -> None:
    baselines = tmp_path / "baselines"
    store = RunStore(tmp_path / ".gpuperf", baselines)
    recorded = msgspec.structs.replace(one_test(), id="20261119-100000-aaaa")
    write_files({recording_path(baselines, recorded): encode_run(recorded)})
    assert store.resolve() == store.resolve("20261119") == recording_path(baselines, recorded)

    compiled = msgspec.structs.replace(one_test(), id="20261120-100000-bbbb")
    compiled = msgspec.structs.replace(
        compiled, environment=msgspec.structs.replace(compiled.environment, gpu=NO_GPU)
    )
    path = store.write(compiled)
    assert store.resolve() == recording_path(baselines, recorded)
    assert store.resolve("20261120") == RunStore(tmp_path / ".gpuperf").resolve() == path

    measured = store.write(msgspec.structs.replace(one_test(), id="20261118-100000-cccc"))
    assert store.resolve("latest") == measured


@pytest.mark.parametrize(
    ("ref", "said"),
    [
        (None, "there is no run in"),
        ("nonsense", "there is no run 'nonsense'; .*; measure one"),
        ("latest::test_a", "leave out the test, .* --gpuperf-update=changed NODEID"),
    ],
)
def test_missing_run_is_an_error(store: RunStore, ref: str | None, said: str) -> None:
    with pytest.raises(GpuperfError, match=said):
        store.resolve(ref)


def test_folder_without_a_run_is_an_error(store: RunStore, tmp_path: Path) -> None:
    with pytest.raises(GpuperfError, match="holds no run"):
        store.resolve(str(tmp_path))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b'{"schema": 1, "tests": {"a": {}}}', "is not a run; expected a run.json"),  # a baseline
        (b'{"started_at": 1', "not valid JSON: .* at line 1, column 17"),
        (b"\x1f\x8bnot really gzip", "cannot be read"),
        (gzip.compress(b'{"schema": 1}', mtime=0)[:-9], "cannot be read"),
        (b'{"schema": 99, "started_at": ""}', "newer pytest-gpuperf .*upgrade"),
        (b'{"schema": 1, "started_at": "2026-01-02"}', "field `id`; measure again with `pytest --gpuperf`"),
        (b'{"started_at": "", "id": "a", "id": "b"}', "the key 'id' occurs twice"),
        (encode_run(one_test()).replace(b'"nvidia-h200"', b'"../../h200"'), "has the GPU '../../h200'"),
        (encode_run(run(id="../x")), "has the run id '../x'"),
        (encode_run(run(id="x" * 5000)), "has the run id 'x{100}'; expected at most 100 letters"),
    ],
)
def test_broken_run_is_named(tmp_path: Path, data: bytes, said: str) -> None:
    path = tmp_path / "run.json"
    path.write_bytes(data)
    with pytest.raises(GpuperfError, match=said) as caught:
        load_run(path)
    assert "run.json" in str(caught.value)


@given(st.one_of(st.binary(max_size=100), st.binary(max_size=30).map(lambda tail: b"\x1f\x8b\x08" + tail)))
def test_any_bytes_are_a_run_or_an_error(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.mktemp("run") / "run.json"
    path.write_bytes(data)
    with pytest.raises(GpuperfError):
        load_run(path)


def test_recordings_come_newest_first(tmp_path: Path) -> None:
    days = {"a": "2026-01-02", "b": "2026-01-03", "c": "2026-01-01"}
    for (run_id, day), gpu in zip(days.items(), (H200, GpuInfo(name="A100", slug="a100"), H200), strict=True):
        recorded = run(id=run_id, started_at=day, gpu=gpu)
        path = recording_path(tmp_path, recorded)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encode_run(recorded))
    assert [recorded.id for recorded in newest_recordings(tmp_path)] == ["b", "a", "c"]


def test_recording_with_most_tests_stands_for_the_newest_run(tmp_path: Path) -> None:
    store = RunStore(tmp_path / ".gpuperf", tmp_path)
    whole = run(record("t.py::a", main=measured()), record("t.py::b", main=measured()), id="1")
    for recorded in (whole, run(record("u.py::c", main=measured()), id="2")):
        write_files({recording_path(tmp_path, recorded): encode_run(recorded)})
    assert store.resolve() == recording_path(tmp_path, whole)


def test_model_of_the_newest_recording_stands_for_the_newest_run(tmp_path: Path) -> None:
    older = GpuInfo(name="A100", slug="a100")
    whole = [record(f"t.py::{name}", main=measured()) for name in "ab"]
    recorded = [
        run(*whole, id="1", started_at="2026-01-01", gpu=older),
        run(whole[0], id="2", started_at="2026-01-02"),
    ]
    for one in recorded:
        write_files({recording_path(tmp_path, one): encode_run(one)})
    state = tmp_path / ".gpuperf"
    assert RunStore(state, tmp_path).resolve() == recording_path(tmp_path, recorded[1])
    assert RunStore(state, tmp_path, "a100").resolve() == recording_path(tmp_path, recorded[0])
    with pytest.raises(GpuperfError, match="no recording of 'h100'; expected one of nvidia-h200, a100"):
        RunStore(state, tmp_path, "h100").resolve()
