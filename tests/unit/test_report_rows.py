from __future__ import annotations

import pytest

from pytest_gpuperf.judge.result import Finding, Status, TestResult
from pytest_gpuperf.records import Measurement
from pytest_gpuperf.report.number_format import show_occupancy, show_time
from pytest_gpuperf.report.rows import Row, build_rows, split_names
from report_examples import result, timing


def row_of(a_result: TestResult) -> Row:
    [[row]] = build_rows([a_result])
    return row


@pytest.mark.parametrize(
    ("achieved", "theoretical", "shown"),
    [(12.51, 12.5, "13 %"), (94.0, 50.0, "94 %"), (12.4, 12.5, "12/12 %")],
)
def test_occupancy_of_many_kernels_is_the_achieved(achieved: float, theoretical: float, shown: str) -> None:
    assert show_occupancy({"achieved_occupancy": achieved, "theoretical_occupancy": theoretical}) == shown


@pytest.mark.parametrize(
    ("time_us", "shown"),
    [
        (0.5, "0.50 µs"),
        (9.994, "9.99 µs"),
        (9.996, "10.0 µs"),
        (99.96, "100 µs"),
        (999.4, "999 µs"),
        (999.6, "1.00 ms"),
        (1e6, "1.00 s"),
    ],
)
def test_time_is_shown_in_the_shortest_unit(time_us: float, shown: str) -> None:
    assert show_time(time_us) == shown


@pytest.mark.parametrize(
    ("bytes_", "flops", "shown"),
    [
        (4_120_000, 0, "412 GB/s"),
        (0, 6_400_000_000, "640 TFLOP/s"),
        (0, 6_400_000, "640 GFLOP/s"),
        (4_120_000, 6_400_000_000, "640 TFLOP/s"),
        (0, 0, ""),
    ],
)
def test_rate_is_shown_for_flops_or_bytes(bytes_: int, flops: int, shown: str) -> None:
    measured = Measurement(timing=timing(10.0, bytes=bytes_, flops=flops))
    assert row_of(result(measurements={"main": measured})).rate == shown


def test_only_the_regressed_label_is_named() -> None:
    measured = {label: Measurement(timing=timing()) for label in ("main", "cold")}
    slower = (Finding(Status.REGRESSED, "slower", "cold"),)
    [[main, cold]] = build_rows([TestResult(result(measurements=measured).record, Status.REGRESSED, slower)])
    assert (main.test, main.verdict) == ("test_square", "pass")
    assert (cold.test, cold.verdict) == ("test_square (cold)", "regressed")


@pytest.mark.parametrize(
    ("nodeids", "prefix", "names"),
    [
        (["a/t.py::x", "a/t.py::y[1/2]"], "a/t.py", ["x", "y[1/2]"]),
        (["a/t.py::x", "a/b/u.py::y"], "a/", ["t.py::x", "b/u.py::y"]),
        (["a/test_s.py::x", "a/test_g.py::y"], "a/", ["test_s.py::x", "test_g.py::y"]),
        (["a/t.py::x", "b/t.py::x"], "", ["a/t.py::x", "b/t.py::x"]),
        (["/t.py::x", "b/t.py::x"], "", ["/t.py::x", "b/t.py::x"]),
        ([], "", []),
    ],
)
def test_names_lose_their_common_part(nodeids: list[str], prefix: str, names: list[str]) -> None:
    assert split_names(nodeids) == (prefix, names)
