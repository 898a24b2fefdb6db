"""Launches of a call on a time line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gpuperf.features.page.picture import Bars, Picture
from pytest_gpuperf.features.page.picture_of_launches import launches, timeline
from pytest_gpuperf.features.trace.chrome import Activity
from pytest_gpuperf.records import Trace
from trace_builders import TraceBuilder

if TYPE_CHECKING:
    from pathlib import Path


def kernel(name: str, start: float, length: float, stream: int = 7) -> Activity:
    return Activity(start, start + length, "kernel", name, stream=stream)


def bars(picture: Picture | None) -> dict[str, Bars]:
    assert picture is not None
    return {mark.name: mark for mark in picture.marks if isinstance(mark, Bars)}


def test_streams_are_rows_and_kinds_are_colours() -> None:
    found = timeline([kernel("gemm", 100.0, 50.0), kernel("layer_norm_kernel", 120.0, 60.0, 13)], Trace())
    assert found.y.names == ("stream 7", "stream 13")
    gemm, other = bars(found)["GEMM"], bars(found)["norm"]
    assert (gemm.start, gemm.to, gemm.rows) == ((0.0,), (50.0,), (0,))
    assert (other.start, other.to, other.rows) == ((20.0,), (80.0,), (1,))


def test_close_launches_of_one_kind_are_one_bar() -> None:
    found = timeline([kernel("gemm", 0.0, 500.0), kernel("gemm", 500.5, 500.0)], Trace())
    assert bars(found)["GEMM"].to == (1000.5,)
    assert found.notes == ("Launches with gaps below 2.50 µs are one bar.",)


def test_long_trace_is_drawn_to_its_end() -> None:
    many = [kernel("gemm" if n % 2 else "layer_norm_kernel", 10.0 * n, 5.0) for n in range(5000)]
    found = timeline(many, Trace())
    drawn = [end for mark in bars(found).values() for end in mark.to]
    assert len(drawn) <= 1000
    assert max(drawn) > 49.9
    assert found.x.label == "time (ms), under the profiler"


def test_trace_next_to_the_run_is_read(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.kernel("gemm_kernel", 100.0, 5.0)
    trace.write(tmp_path / "t.json.gz")
    found = launches(Trace(file="t.json.gz"), tmp_path)
    assert found is not None
    assert found.title == "Launches on a time line"


def test_broken_trace_and_file_outside_of_the_run_have_no_picture(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    for file in (tmp_path / "secret.json", tmp_path / "run" / "t.json"):
        file.write_text("{")
    for name in ("../secret.json", "t.json", ""):
        assert launches(Trace(file=name), tmp_path / "run") is None
