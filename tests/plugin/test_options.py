"""Options and their ini keys."""

from __future__ import annotations

import pytest

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.settings.settings import Settings
from run_results import expect_usage_error


def settings(pytester: pytest.Pytester, *arguments: str) -> Settings:
    return Settings.from_config(pytester.parseconfig(*arguments))


def test_the_command_line_beats_the_ini_file(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\ngpuperf_tolerance = 7\n")
    assert settings(pytester, "-ogpuperf_tolerance=3").tolerance_pct == 3.0


def test_the_ini_key_gpuperf_turns_the_plugin_on(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\ngpuperf = true\n")
    pytester.makepyfile("def test_k(gpuperf): pass")
    expect_usage_error(pytester.runpytest("--gpuperf-replay=nowhere"), "*nowhere*")


@pytest.mark.parametrize("value", ["-1", "nan", "inf", "soon"])
@pytest.mark.parametrize(("option", "expected"), [("budget", "above 0"), ("tolerance", "from 0 to 1,000")])
def test_invalid_number_is_named(pytester: pytest.Pytester, option: str, value: str, expected: str) -> None:
    with pytest.raises(GpuperfError, match=f"gpuperf_{option} is '{value}'; expected.*{expected}"):
        settings(pytester, f"-ogpuperf_{option}={value}")


def test_zero_budget_is_an_error_but_zero_tolerance_is_valid(pytester: pytest.Pytester) -> None:
    with pytest.raises(GpuperfError, match="gpuperf_budget is '0'; expected a number above 0"):
        settings(pytester, "-ogpuperf_budget=0")
    assert settings(pytester, "-ogpuperf_tolerance=0").tolerance_pct == 0


def test_strict_is_a_flag_and_an_ini_word(pytester: pytest.Pytester) -> None:
    assert not settings(pytester).strict
    assert settings(pytester, "--gpuperf-strict").strict
    pytester.makeini("[pytest]\ngpuperf_strict = yes\n")
    assert settings(pytester).strict


def test_invalid_ini_word_is_named(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\ngpuperf_mode = lukewarm\n")
    with pytest.raises(
        GpuperfError, match="gpuperf_mode is 'lukewarm'; expected one of auto, hot, cold, queued"
    ):
        settings(pytester)


def test_presets_are_separated_by_commas(pytester: pytest.Pytester) -> None:
    assert settings(pytester, "-ogpuperf_preset=sol, stalls").preset == ("sol", "stalls")


def test_an_unknown_preset_is_named(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\ngpuperf_preset = sol,stals\n")
    with pytest.raises(GpuperfError, match=r"no preset 'stals' in gpuperf_preset; expected .* memory"):
        settings(pytester)


def test_metrics_are_separated_by_commas(pytester: pytest.Pytester) -> None:
    found = settings(pytester, "--gpuperf-metrics=dram__bytes_read.sum, dram__bytes_write.sum,")
    assert found.metrics == ("dram__bytes_read.sum", "dram__bytes_write.sum")


def test_eighteen_options_at_most(pytester: pytest.Pytester) -> None:
    options = {
        word for word in pytester.runpytest("--help").stdout.str().split() if word.startswith("--gpuperf")
    }
    assert 10 < len({word.partition("=")[0] for word in options}) <= 18
