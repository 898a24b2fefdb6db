"""What the plugin does, and does not do, without `--gpuperf`."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from pytest_gpuperf.options import OPTIONS

HEAVY = ("torch", "numpy", "pandas", "scipy", "triton", "msgspec", "rich", "pynvml", "pytest_gpuperf.session")


def test_without_the_flag_nothing_heavy_is_imported(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        f"""
        import sys

        def test_modules():
            assert "pytest_gpuperf.plugin" in sys.modules
            assert [name for name in {HEAVY!r} if name in sys.modules] == []
        """
    )
    pytester.runpytest_subprocess("-p", "no:xdist", "-p", "no:hypothesispytest").assert_outcomes(passed=1)


def test_importing_the_plugin_costs_under_ten_milliseconds() -> None:
    # Python's own account of the import, the best of a few, as others share the machine.
    def cost_us() -> int:
        code = "import pytest, argparse, pathlib, dataclasses; import pytest_gpuperf.plugin"
        done = subprocess.run(
            [sys.executable, "-X", "importtime", "-c", code], capture_output=True, text=True
        )
        lines = [
            line
            for line in done.stderr.splitlines()
            if line.split("|")[-1].strip() == "pytest_gpuperf.plugin"
        ]
        assert lines, done.stderr[-500:]
        return int(lines[0].split("|")[1])

    assert min(cost_us() for _ in range(3)) < 10_000


@pytest.mark.parametrize("fixture", ["gpuperf", "gpu_warmup", "gpu_timer", "ncu"])
def test_a_test_that_measures_is_skipped_with_the_flag_named(pytester: pytest.Pytester, fixture: str) -> None:
    pytester.makepyfile(f"def test_k({fixture}): pass")
    result = pytester.runpytest("-rs")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["SKIPPED*run pytest with --gpuperf"])


def test_help_shows_every_option_with_its_default_and_ini_key(pytester: pytest.Pytester) -> None:
    text = re.sub(r"\s+", " ", "\n".join(pytester.runpytest("--help").outlines))
    for option in OPTIONS:
        shown = option.default or "unset"
        assert option.flag in text
        assert f"(default: {shown}; ini: {option.ini})" in text or option.name == "markdown"
    assert "(default: off; ini: gpuperf)" in text


def test_the_marker_is_known_under_strict_markers(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.gpuperf(kernels="x")
        def test_k(): pass
        """
    )
    pytester.runpytest("--strict-markers").assert_outcomes(passed=1)


def test_every_public_name_can_be_imported() -> None:
    import pytest_gpuperf

    for name in pytest_gpuperf.__all__:
        assert getattr(pytest_gpuperf, name) is not None


def test_an_unknown_public_name_is_an_attribute_error() -> None:
    import pytest_gpuperf

    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        pytest_gpuperf.nonsense  # noqa: B018
