from __future__ import annotations

import gzip
import math
from datetime import datetime, timedelta, timezone
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_gpuperf.baseline.merge import accept
from pytest_gpuperf.baseline.store import BaselineStore
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.records import (
    NO_GPU,
    ClockModel,
    Conditions,
    Correctness,
    GpuInfo,
    Measurement,
    Run,
    TestRecord,
    WarmUp,
)
from pytest_gpuperf.records.runs import (
    RunStore,
    encode_run,
    load_run,
    newest_recordings,
    recording_path,
)
from pytest_gpuperf.records.writing import write_files
from run_builders import H200, measured, one_test, record, run, timing

NOW = datetime(2026, 11, 20, 19, 30, 12, tzinfo=timezone(timedelta(hours=2)))


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    return RunStore(tmp_path / ".gpuperf")


def test_ids_are_utc_stamps_that_sort() -> None:
    first, second = RunStore.new_id(NOW), RunStore.new_id(NOW + timedelta(seconds=1))
    assert first.startswith("20261120-173012-")
    assert first < second


def test_written_run_is_read_again(store: RunStore) -> None:
    written = one_test(counters={"sm_throughput": 1.0, "occupancy_limiter": "warps"})
    path = store.write(written)
    assert path == store.folder / written.id / "run.json"
    assert load_run(path) == written


def test_git_ignores_the_state_folder(store: RunStore) -> None:
    store.write(one_test())
    assert (store.folder.parent / ".gitignore").read_text(encoding="utf-8") == "*\n"


def test_a_test_is_a_line(store: RunStore) -> None:
    tests = [record(f"t.py::{name}", main=measured()) for name in "abc"]
    assert len(store.write(run(*tests)).read_text(encoding="utf-8").splitlines()) == 2 + len(tests)


def test_appended_tests_are_read_like_written_ones(store: RunStore) -> None:
    tests = [record(f"t.py::{name}", main=measured()) for name in "abc"]
    unfinished = run(tests[0], complete=False)
    path = store.write(unfinished)
    for test in tests[1:]:
        store.append(unfinished.id, test)
        assert not load_run(path).complete
    assert path.read_bytes() == encode_run(run(*tests, complete=False))


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


def test_gzipped_run_is_read(tmp_path: Path) -> None:
    path = tmp_path / "run.json.gz"
    path.write_bytes(gzip.compress(encode_run(one_test())))
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
    ("ref", "said"), [(None, "there is no run in"), ("nonsense", "there is no run 'nonsense'")]
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
        (b'{"schema": 1', "not valid JSON: .* at line 1, column 13"),
        (b"\x1f\x8bnot really gzip", "cannot be read"),
        (gzip.compress(b'{"schema": 1}', mtime=0)[:-9], "cannot be read"),
        (b'{"schema": 99}', "newer pytest-gpuperf .*upgrade"),
        (b'{"schema": 1}', "not have the expected form: .*`id`"),
        (encode_run(one_test()).replace(b'"nvidia-h200"', b'"../../h200"'), "has the GPU '../../h200'"),
        (encode_run(run(id="../x")), "has the run id '../x'"),
        (encode_run(run(record(main=Measurement(timing=timing(0.0))))), "a time of 0.0 µs"),
        (encode_run(run(record(main=Measurement(timing=timing(math.nan))))), "a time of nan µs"),
    ],
)
def test_broken_run_is_named(tmp_path: Path, data: bytes, said: str) -> None:
    path = tmp_path / "run.json"
    path.write_bytes(data)
    with pytest.raises(GpuperfError, match=said) as caught:
        load_run(path)
    assert "run.json" in str(caught.value)


def hostile(**changes: object) -> bytes:
    """Return an encoded run with one timing that has these fields."""
    return encode_run(run(record(main=Measurement(timing=msgspec.structs.replace(timing(), **changes)))))


def clock_model(**changes: float) -> ClockModel:
    return msgspec.structs.replace(ClockModel(cycles=7500.0, fixed_us=5.0, reference_mhz=1980.0), **changes)


def at_clocks(*mhz: float, **changes: object) -> bytes:
    """Return an encoded run with one timing that has a block at each clock."""
    return hostile(blocks_mhz=mhz, **{"blocks_us": (5.3,) * len(mhz), **changes})


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (hostile(spread_pct=math.nan), "has nan as spread_pct of suites/test_square"),
        (hostile(spread_pct=math.inf), "has inf as spread_pct"),
        (hostile(spread_pct=-1.0), "has -1.0 as spread_pct"),
        (hostile(blocks_us=(1.0, math.nan)), "as blocks_us of"),
        (hostile(bytes=-1), "has -1 as bytes"),
        (hostile(warm_up=WarmUp(seconds=math.nan, launches=1, steady=True)), "has nan as seconds"),
        (hostile(conditions=Conditions(power_w=-math.inf)), "has -inf as power_w"),
        (hostile(clock_model=clock_model(cycles=math.nan)), "has nan as cycles of suites/test_square"),
        (hostile(clock_model=clock_model(fixed_us=-5.0)), "has -5.0 as fixed_us"),
        (hostile(clock_model=clock_model(share_error=math.inf)), "has inf as share_error"),
        (hostile(clock_model=clock_model(reference_mhz=-1980.0)), "has -1980.0 as reference_mhz"),
        (hostile(clock_model=clock_model(reference_mhz=0.0)), "has 0 as reference_mhz"),
        (
            hostile(clock_model=clock_model(cycles=0.0, fixed_us=0.0)),
            r"test_triton\[1823x781\] takes 0.0 µs at 1980.0 MHz",
        ),
        (hostile(clock_model=clock_model(cycles=1e308, reference_mhz=1e-308)), "takes inf µs at 1e-308 MHz"),
        (at_clocks(1500.0, 1e300, clock_model=clock_model(cycles=1e-300, fixed_us=0.0)), "at 1e[+]300 MHz"),
        (at_clocks(1500.0, 1600.0, blocks_us=(5.3, -5.4)), "trimmed mean of -0.0"),
        (at_clocks(1500.0, 1600.0, blocks_us=(0.0, 0.0)), "trimmed mean of 0.0 µs"),
        (
            # Normalised to one clock, the block below 0 is the longer one.
            at_clocks(1000.0, 2000.0, blocks_us=(1.1, -1.0), clock_model=clock_model(fixed_us=0.0)),
            "trimmed mean of -0.",
        ),
        (encode_run(one_test(counters={"sm_throughput": math.nan})), "has 'nan' as sm_throughput"),
        (encode_run(one_test(counters={"instructions": -3.0})), "has -3.0 as instructions"),
        (
            encode_run(run(TestRecord(nodeid="t.py::t", measurements={}, tolerance_pct=math.inf))),
            "has inf as tolerance_pct of t.py::t",
        ),
        (encode_run(run(record(), record())), "has two records of suites/test_square"),
    ],
)
def test_impossible_run_is_refused(tmp_path: Path, data: bytes, said: str) -> None:
    path = tmp_path / "run.json"
    path.write_bytes(data)
    with pytest.raises(GpuperfError, match=said):
        load_run(path)


@pytest.mark.parametrize(
    "data",
    [
        hostile(mode="cold", blocks_us=(1.0, -0.1)),
        at_clocks(1500.0, 1600.0, mode="cold", blocks_us=(1.0, -0.1), clock_model=clock_model()),
        # The run is compared as measured.
        at_clocks(1500.0, mode="cold", blocks_us=(0.1, -1.0), clock_model=clock_model()),
        at_clocks(1500.0, 0.0, clock_model=clock_model()),
    ],
    ids=["a cold block below 0", "at a known clock", "not as many clocks", "a clock unknown"],
)
def test_unusual_but_possible_run_is_read(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "run.json"
    path.write_bytes(data)
    assert load_run(path).tests


UNKNOWN = [0.0, math.inf, math.nan]


@settings(deadline=None)  # the first example imports SciPy
@given(
    blocks=st.lists(
        st.tuples(
            st.sampled_from([-1.0, 1.0, 5.3, *UNKNOWN]), st.sampled_from([-1500.0, 1500.0, 1600.0, *UNKNOWN])
        ),
        min_size=1,
        max_size=3,
    ),
    model=st.none() | st.tuples(*[st.sampled_from([-1.0, 1.0, 1500.0, *UNKNOWN])] * 4),
)
def test_run_that_is_read_can_be_judged_and_accepted(
    tmp_path_factory: pytest.TempPathFactory,
    blocks: list[tuple[float, float]],
    model: tuple[float, float, float, float] | None,
) -> None:
    folder = tmp_path_factory.mktemp("project")
    (folder / "run.json").write_bytes(
        at_clocks(
            *(mhz for _, mhz in blocks),
            blocks_us=tuple(time_us for time_us, _ in blocks),
            clock_model=model
            and ClockModel(cycles=model[0], fixed_us=model[1], reference_mhz=model[2], share_error=model[3]),
        )
    )
    try:
        read = load_run(folder / "run.json")
    except GpuperfError:
        return
    (folder / "known.json").write_bytes(at_clocks(1500.0, clock_model=clock_model()))
    known = msgspec.structs.replace(load_run(folder / "known.json"), id="known")
    store = BaselineStore(folder / "baselines")
    accept(known, store, "all", 5.0, environ={})
    assert accept(read, store, "all", 5.0, environ={}).files


def test_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(GpuperfError, match="cannot be read: No such file"):
        load_run(tmp_path / "run.json")


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


def test_project_without_recordings_has_none(tmp_path: Path) -> None:
    assert newest_recordings(tmp_path / "baselines") == []


def test_reports_of_the_newest_runs_are_kept(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    for day in range(10, 15):
        folder = store.folder / f"202611{day}-120000-aaaa" / "ncu"
        folder.mkdir(parents=True)
        (folder / "report.ncu-rep").write_bytes(b"x")
        (folder.parent / "run.json").write_bytes(b"{}")
    store.drop_old_reports(keep=2)
    assert sorted(path.parts[-3] for path in store.folder.glob("*/ncu/report.ncu-rep")) == [
        "20261113-120000-aaaa",
        "20261114-120000-aaaa",
    ]
    assert len(list(store.folder.glob("*/run.json"))) == 5
