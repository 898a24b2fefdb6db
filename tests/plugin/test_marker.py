"""The `gpuperf` marker."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.session.marker import Marker
from run_results import expect_usage_error


def marker(*decorators: str) -> Marker:
    """Read the markers of a test, the nearest first."""
    marks = [eval(f"pytest.mark.gpuperf({decorator})").mark for decorator in decorators]
    item: Any = SimpleNamespace(nodeid="test_k.py::test_k", iter_markers=lambda _: marks)
    return Marker.of(item)


def test_kernels_may_be_a_list() -> None:
    assert marker("kernels=['a+', 'b']").regex == "(?:a+)|(?:b)"


def test_limits_of_test_and_module_add_up() -> None:
    found = marker("limits={'memory_throughput': '>= 60'}", "limits=['stall.barrier <= 25'], kernels='x'")
    assert [limit.name for limit in found.limits] == ["memory_throughput", "stall.barrier"]
    assert found.regex == "x"


def test_metrics_with_limits_are_read_with_any_preset() -> None:
    limits = ["dram__bytes_read.sum <= 100", "waves > 1", "time_us < 5"]
    found = marker(f"limits={limits}, preset='sol'")
    assert found.metrics == ("dram__bytes_read.sum", "waves")


@pytest.mark.parametrize("written", ["'sol, stalls'", "['sol', 'stalls']", "('sol', 'stalls', 'sol')"])
def test_presets_are_a_text_or_a_list(written: str) -> None:
    assert marker(f"preset={written}").preset == ("sol", "stalls")


@pytest.mark.parametrize(
    ("decorator", "message"),
    [
        ("kernel='x'", "argument 'kernel'; expected keyword arguments out of kernels, launches"),
        ("'x'", "positional argument 'x'"),
        ("limts=['a >= 1'], tolerances=3", "arguments 'limts', 'tolerances'; expected"),
        ("kernels='('", "kernel regex '\\(' in the gpuperf marker of .* is broken"),
        ("launches='second'", "launches='second' in the gpuperf marker .*; expected 'all', 'first', 'last'"),
        ("tolerance=-1", "tolerance=-1"),
        ("tolerance=float('nan')", "tolerance=nan in the gpuperf marker .* at most 1000"),
        ("preset='stals'", "no preset 'stals' in the gpuperf marker of .*expected one or more of default"),
        ("limits=['memory_throughput => 60']", "memory_throughput => 60"),
        ("limits=['memory_troughput >= 60']", "memory_throughput"),
    ],
)
def test_mistake_in_a_marker_is_named(decorator: str, message: str) -> None:
    with pytest.raises(GpuperfError, match=message):
        marker(decorator)


@pytest.mark.parametrize("mistake", ["tolerance=-1", "metrics=['durration_us']"])
def test_mistake_is_found_without_the_fixture(pytester: pytest.Pytester, mistake: str) -> None:
    pytester.makepyfile(f"import pytest\n@pytest.mark.gpuperf({mistake})\ndef test_func(): pass\n")
    result = pytester.runpytest("--gpuperf")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    pytester.runpytest().assert_outcomes(passed=1)


def test_marker_without_an_effect_is_a_warning(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("import pytest\n@pytest.mark.gpuperf(tolerance=3)\ndef test_func(): pass\n")
    result = pytester.runpytest("--gpuperf")
    result.assert_outcomes(passed=1, warnings=1)
    result.stdout.fnmatch_lines(["*the gpuperf marker of this test has no effect; expected `gpuperf`*"])
    result = pytester.runpytest("--gpuperf", "-Werror")
    expect_usage_error(result, "*test_func: gpuperf: the gpuperf marker*")


@pytest.mark.parametrize(
    "text",
    [
        "pytestmark = pytest.mark.gpuperf(tolerance=3)\ndef test_func(): pass",
        "@pytest.mark.gpuperf(tolerance=3)\nclass TestK:\n    def test_func(self): pass",
        "@pytest.mark.gpuperf\ndef test_func(): pass",
    ],
    ids=["module", "class", "tag"],
)
def test_marker_for_other_purposes_is_no_warning(pytester: pytest.Pytester, text: str) -> None:
    pytester.makepyfile(f"import pytest\n{text}\n")
    assert "has no effect" not in pytester.runpytest("--gpuperf").stdout.str()


@pytest.mark.parametrize(
    ("near", "outer", "field", "value"),
    [
        ("tolerance=8", "tolerance=2", "tolerance_pct", 8.0),
        ("launches=2", "launches='last'", "launches", 2),
        ("preset='sol'", "preset='stalls'", "preset", ("sol",)),
    ],
)
def test_the_nearest_marker_counts(near: str, outer: str, field: str, value: object) -> None:
    assert getattr(marker(near, outer), field) == value
