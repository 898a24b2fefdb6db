from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import filelock
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from present import present
from pytest_gpuperf.baseline import store as store_module
from pytest_gpuperf.baseline.rounding import round_counter, round_to_digits
from pytest_gpuperf.baseline.store import BaselineStore
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.records.baseline import Baseline, BaselineGpu, suite_of

SLUG = "nvidia-h200"


def of(**tests: Any) -> Baseline:
    return msgspec.convert(content(**tests), Baseline)


def content(**tests: Any) -> dict[str, Any]:
    return {"schema": 1, "gpu": {"name": "NVIDIA H200", "slug": SLUG}, "runs": {}, "tests": tests}


def file_with(tmp_path: Path, data: bytes | dict[str, Any]) -> BaselineStore:
    store = BaselineStore(tmp_path / "baselines")
    path = store.path(SLUG, "test_x")
    path.parent.mkdir(parents=True)
    path.write_bytes(data if isinstance(data, bytes) else json.dumps(data).encode())
    return store


def files_below(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_baseline_is_read(tmp_path: Path) -> None:
    measurement = {
        "time": {"mode": "hot", "sessions": [{"run": "a", "time_us": 1.0}, {"run": "b", "time_us": 3}]},
        "counters": {"sm_throughput": 77, "occupancy_limiter": "warps"},
    }
    test = {"limits": {"time_us": "<= 5"}, "tolerance_pct": 8, "measurements": {"main": measurement}}
    store = file_with(tmp_path, content(test=test))
    loaded = present(store.load(SLUG, "test_x"))
    main = loaded.tests["test"].measurements["main"]
    assert present(main.time).mean_us == 2.0
    assert main.counters == {"sm_throughput": 77.0, "occupancy_limiter": "warps"}
    assert loaded.tests["test"].tolerance_pct == 8.0
    assert (store.slugs(), store.suites(SLUG)) == ([SLUG], ["test_x"])


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b'{"schema": 1,\n  "gpu" {}}', r"not valid JSON: .* at line 2, column 9"),
        (b"", "not valid JSON"),
        (b"\xff\xfe", "not valid JSON"),
        (b"[" * 100_000, "not valid JSON"),
        (b"[]", "Expected `object`, got `array`"),
        (b'{"schema": "1"}', r"Expected `int`, got `str` - at `\$.schema`"),
        (content() | {"schema": 2}, "written by a newer pytest-gpuperf .*upgrade"),
        (content() | {"gpu": {"slug": "nvidia-a100"}}, "for another GPU: nvidia-a100; .* keep either"),
        (content(a={"limits": {"sm_troughput": ">= 3"}}), "limits of a: there is no metric 'sm_troughput'"),
        (content(a={"limits": {"sm_throughput": 3}}), "wrong value of a: Expected `str`, got `int`"),
        (content(a={"tolerance_pct": -1}), "wrong value of a: Expected `float` > 0.0 - at .*tolerance_pct"),
        (content(a={"tolerence_pct": 5}), "wrong value of a: Object contains unknown field `tolerence_pct`"),
    ],
)
def test_broken_file_is_named_and_left_alone(tmp_path: Path, data: bytes | dict[str, Any], said: str) -> None:
    store = file_with(tmp_path, data)
    (tmp_path / "baselines/nvidia-a100/test_x.json").mkdir(parents=True)
    before = files_below(tmp_path)
    with pytest.raises(GpuperfError, match=said) as caught:
        store.load(SLUG, "test_x")
    assert "baselines/nvidia-h200/test_x.json" in str(caught.value)
    assert files_below(tmp_path) == before


@pytest.mark.parametrize("slug", ["..", "../other", "", "a/b", ".hidden"])
def test_slug_cannot_leave_the_folder(tmp_path: Path, slug: str) -> None:
    with pytest.raises(GpuperfError, match="not a name of a GPU"):
        BaselineStore(tmp_path).load(slug, "test_x")


@pytest.mark.parametrize("nodeid", ["", "::test", "..::test", "a/..", "a\x00::t", "\udcff/a::t", "a\\b::t"])
def test_nodeid_without_a_file_has_no_suite(nodeid: str) -> None:
    with pytest.raises(GpuperfError):
        suite_of(nodeid)


def test_suite_is_the_stem_of_the_test_file() -> None:
    assert suite_of("suites/test_square.py::TestX::test_y[a/b.c::d]") == "test_square"


@given(
    st.dictionaries(
        st.text(),
        st.fixed_dictionaries({}, optional={"note": st.text(), "seconds": st.floats(0, 1e9)}),
        max_size=3,
    )
)
def test_written_data_are_read_again(tmp_path_factory: pytest.TempPathFactory, tests: dict[str, Any]) -> None:
    store = BaselineStore(tmp_path_factory.mktemp("project") / "baselines")
    path = store.path(SLUG, "test_x")
    store.write({path: of(**tests)})
    loaded = store.load(SLUG, "test_x")
    assert loaded == of(**tests)
    before = path.read_bytes()
    store.write({path: loaded})
    assert path.read_bytes() == before


@given(st.binary(max_size=200))
def test_any_bytes_are_a_baseline_or_an_error(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    store = file_with(tmp_path_factory.mktemp("project"), data)
    with pytest.raises(GpuperfError):
        store.load(SLUG, "test_x")


def test_file_is_sorted_indented_and_ends_with_a_newline(tmp_path: Path) -> None:
    store = BaselineStore(tmp_path / "baselines")
    path = store.path(SLUG, "test_x")
    store.write({path: Baseline(schema=1, gpu=BaselineGpu(slug=SLUG, name="µ"))})
    assert path.read_text(encoding="utf-8") == (
        '{\n  "gpu": {\n    "name": "µ",\n    "slug": "nvidia-h200"\n  },\n  "schema": 1\n}\n'
    )


@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()])
def test_interruption_before_the_files_are_synced_leaves_no_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    store = file_with(tmp_path, content())
    before = files_below(tmp_path / "baselines")
    synced = []

    def second_fsync_fails(descriptor: int) -> None:
        synced.append(descriptor)
        if len(synced) == 2:
            raise error

    monkeypatch.setattr(os, "fsync", second_fsync_fails)
    with pytest.raises(type(error)):
        store.write({store.path(SLUG, name): of(new={"note": name}) for name in ("test_x", "test_y")})
    assert files_below(tmp_path / "baselines") == before


def test_ctrl_c_between_two_files_waits_for_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = file_with(tmp_path, content())
    replace = Path.replace

    def interrupted_replace(self: Path, target: Path) -> Path:
        if target.suffix == ".json":
            signal.raise_signal(signal.SIGINT)
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", interrupted_replace)
    with pytest.raises(KeyboardInterrupt):
        store.write({store.path(SLUG, name): of(new={"note": name}) for name in ("test_x", "test_y")})
    notes = {name: json.loads(data)["tests"] for name, data in files_below(tmp_path / "baselines").items()}
    assert notes == {f"{SLUG}/{name}.json": {"new": {"note": name}} for name in ("test_x", "test_y")}


def test_second_writer_is_refused_during_a_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "LOCK_TIMEOUT_S", 0.01)
    store = BaselineStore(tmp_path / "baselines")
    with (
        filelock.FileLock(tmp_path / ".gpuperf" / "baselines.lock"),
        pytest.raises(GpuperfError, match="another process"),
    ):
        store.write({store.path(SLUG, "test_x"): of()})
    assert not (tmp_path / "baselines").exists()


@pytest.mark.parametrize(
    ("value", "digits", "rounded"),
    [(5.29999, 4, 5.3), (123456.7, 4, 123500), (0.0, 4, 0), (0.012345, 2, 0.012)],
)
def test_numbers_are_rounded_to_significant_digits(value: float, digits: int, rounded: float) -> None:
    assert round_to_digits(value, digits) == rounded


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("memory_throughput", 77.0449, "77.0"),
        ("stall.barrier", 0.012345, "0.01"),
        ("dram_bytes", 16777216.0, "16800000.0"),
        ("shared_memory_per_block", 1234567.0, "1234567.0"),
        ("waves", 0.123456789, "0.123457"),
        ("instructions", 123456789.0, "123457000.0"),
        ("any__raw.name", 1.23456, "1.235"),
        ("occupancy_limiter", "warps", '"warps"'),
    ],
)
def test_counters_keep_the_digits_of_their_tier(name: str, value: float, text: str) -> None:
    assert json.dumps(round_counter(name, value)) == text
