"""Files of the history in a folder."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import filelock
import pytest
from hypothesis import given
from hypothesis import strategies as st

from history_builders import at_once, line
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.features.history import store as store_module
from pytest_gpuperf.features.history.history_line import decode_lines, encode_lines
from pytest_gpuperf.features.history.store import HistoryStore
from pytest_gpuperf.records import ClockModel

if TYPE_CHECKING:
    from pathlib import Path

FILE = "nvidia-h200/test_square.jsonl"


def file_of(*numbers: int) -> bytes:
    return encode_lines(map(line, numbers))


def runs_in(root: Path) -> list[str]:
    return [found.run for found in HistoryStore(root).load()]


def with_file(root: Path, data: bytes) -> HistoryStore:
    (root / FILE).parent.mkdir()
    (root / FILE).write_bytes(data)
    return HistoryStore(root)


def test_added_lines_are_read_by_date(tmp_path: Path) -> None:
    store = HistoryStore(tmp_path / "history")
    assert store.add([line(2), line(1)]) == 2
    assert store.add([line(0)]) == 1
    assert store.load() == [line(0), line(1), line(2)]


def test_adding_a_run_twice_adds_nothing(tmp_path: Path) -> None:
    store = HistoryStore(tmp_path)
    store.add([line(0), line(0, label="backward")])
    before = (tmp_path / FILE).read_bytes()
    assert store.add([line(0, time_us=9.9), line(0, label="backward")]) == 0
    assert (tmp_path / FILE).read_bytes() == before


def test_each_gpu_and_suite_has_a_file(tmp_path: Path) -> None:
    lines = [line(0), line(0, gpu="nvidia-a100"), line(0, test="t/test_gemm.py::test_a")]
    HistoryStore(tmp_path).add(lines)
    found = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.glob("*/*"))
    assert found == ["nvidia-a100/test_square.jsonl", "nvidia-h200/test_gemm.jsonl", FILE]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"<<<<<<< HEAD", r"test_square.jsonl, line 2 is not valid JSON"),
        (b'{"schema":1}', r"line 2 has a wrong value: Object missing required field `test`"),
        (
            encode_lines([line(1)]).replace(b'"schema":1', b'"schema":2'),
            r"line 2 was written by a newer .*upgrade",
        ),
        (encode_lines([line(1, time_us=-1.0)]), r"line 2 has a wrong value: .* at `\$.time_us`"),
        (encode_lines([line(1, run="../../x")]), r"line 2 has the run id '../../x'"),
        (encode_lines([line(1, gpu="nvidia-a100")]), r"line 2 is of nvidia-a100/test_square.jsonl"),
        (encode_lines([line(1, date="yesterday")]), r"line 2 has a wrong value: .* at `\$.date`"),
        (encode_lines([line(1)])[:-30], r"line 2 is not valid JSON"),
    ],
)
def test_broken_line_is_named_and_nothing_changes(tmp_path: Path, text: bytes, said: str) -> None:
    data = file_of(0) + text.rstrip(b"\n") + b"\n" + file_of(2)
    store = with_file(tmp_path, data)
    for use in (store.load, lambda: store.add([line(3)])):
        with pytest.raises(GpuperfError, match=said):
            use()
    assert (tmp_path / FILE).read_bytes() == data


PIECES = st.binary(max_size=8) | st.sampled_from([b"NaN", b"-1", b"1e999", b"[[", b"{}", b"null", b"\n"])


@given(st.data())
def test_changed_file_is_read_or_refused_with_an_error(data: st.DataObject) -> None:
    model = ClockModel(cycles=9000.0, fixed_us=0.0, reference_mhz=1800.0)
    known = line(1, 5.0, sm_clock_mhz=1800.0, normalised_us=5.0, clock_model=model, dirty=True)
    whole = bytearray(encode_lines([line(0), known]))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(whole) - 1))
        whole[at : at + data.draw(st.integers(0, 8))] = data.draw(PIECES)
    try:
        found = decode_lines(bytes(whole), FILE, "x.jsonl")
    except GpuperfError as error:
        found = None
        said = str(error)
    if found is None:
        assert said.startswith("x.jsonl, line ")
    else:
        assert all(one.file == FILE and math.isfinite(one.time_us) for one in found)


def _add(root: Path, numbers: list[int]) -> None:
    for number in numbers:
        HistoryStore(root).add([line(number)])


def test_processes_add_at_once_without_loss(tmp_path: Path) -> None:
    at_once(_add, *((tmp_path, list(range(start, 24, 3))) for start in range(3)))
    assert runs_in(tmp_path) == [f"run-{number:04}" for number in range(24)]


def test_locked_history_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "LOCK_TIMEOUT_S", 0.01)
    store = HistoryStore(tmp_path)
    store.add([line(0)])
    with (
        filelock.FileLock(tmp_path / ".lock"),
        pytest.raises(GpuperfError, match="another process adds to the history"),
    ):
        store.add([line(1)])


def test_both_sides_of_a_merge_are_read_once(tmp_path: Path) -> None:
    store = with_file(tmp_path, file_of(0, 2) + file_of(0, 1))
    assert [found.run for found in store.load()] == ["run-0000", "run-0001", "run-0002"]
