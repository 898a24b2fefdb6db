"""The plugin without `--gpuperf`."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from run_results import expect

if TYPE_CHECKING:
    from pathlib import Path

HEAVY = ("torch", "numpy", "pandas", "scipy", "triton", "msgspec", "rich", "pynvml", "pytest_gpuperf.session")


def test_without_the_flag_nothing_heavy_is_imported_or_rewritten(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_PLUGINS", "marks,pytest_gpuperf.plugin.entry")
    pytester.makepyfile(
        marks="import pytest\npytest.register_assert_rewrite('pytest_gpuperf')  # as for an installed plugin",
        test_k=f"""
        import sys

        def test_modules():
            assert "pytest_gpuperf.plugin.entry" in sys.modules
            assert [name for name in {HEAVY!r} if name in sys.modules] == []
            assert "_pytest" not in str(sys.modules["pytest_gpuperf.registry"].__loader__)
        """,
    )
    pytester.runpytest_subprocess().assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("modules", "late"),
    [
        (("plugin.hook_selection", "plugin.controller"), {"pytest_gpuperf.metrics", "xdist.scheduler"}),
        (("plugin.hooks", "session.late_work", "session.live_runner"), {"torch", "numpy", "scipy"}),
    ],
    ids=["controller, before the process of the tests starts", "process of the tests"],
)
def test_what_is_needed_later_is_imported_later(modules: tuple[str, ...], late: set[str]) -> None:
    """The controller has no use for torch, and the tests' fake GPU replaces it."""
    imports = ", ".join(f"pytest_gpuperf.{name}" for name in modules)
    code = f"import sys, {imports}; sys.exit(str({late!r} & {{*sys.modules}}))"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ended.stderr == "set()\n"


START = """
import time
begin = time.process_time()  # others share the machine
from _pytest.config import get_config
config = get_config([])
own = time.process_time() - begin
import pytest_gpuperf.plugin.entry
config.pluginmanager.register(pytest_gpuperf.plugin.entry)  # declares the options too
print((time.process_time() - begin) / own - 1)
"""


def test_the_plugin_adds_under_six_percent_to_the_start_of_pytest(tmp_path: Path) -> None:
    """That is 6 ms where pytest itself takes 0.1 s."""
    command = [sys.executable, "-c", START]
    # As for users, Python has compiled the modules in an earlier run.
    environ = {**os.environ, "PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(tmp_path)}
    runs = [subprocess.run(command, env=environ, capture_output=True, check=True) for _ in range(5)]
    assert min(float(run.stdout) for run in runs) < 0.06


@pytest.mark.parametrize(
    ("ini", "given", "typed"),
    [
        ("", ["--gpuperf-shard=1/2"], "--gpuperf-shard=1/2"),
        ("", ["--gpuperf-update", "new"], "--gpuperf-update=new"),
        ("addopts = --gpuperf-against=HEAD~1", [], "'--gpuperf-against=HEAD~1'"),
    ],
)
def test_actions_without_gpuperf_are_errors(
    pytester: pytest.Pytester, ini: str, given: list[str], typed: str
) -> None:
    pytester.makepyfile("def test_k(gpuperf): pass")
    pytester.makeini(f"[pytest]\n{ini}\n")
    result = pytester.runpytest(*given)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    flag = typed.strip("'")
    assert result.errlines[0] == (
        f"ERROR: gpuperf: {flag} without --gpuperf, so without effect; "
        f"expected --gpuperf as well; type `pytest --gpuperf {typed}`"
    )


@pytest.mark.parametrize(
    ("ini", "given"),
    [
        ("", ["--gpuperf-shard=", "--gpuperf-against=", "--gpuperf-update=never"]),
        ("", ["-ogpuperf_budget=2", "--gpuperf-mode=cold", "--gpuperf-strict"]),
        ("gpuperf_against = main\ngpuperf_update = new\n", []),
    ],
    ids=["defaults", "how to measure", "ini file"],
)
def test_other_options_are_ignored_without_gpuperf(
    pytester: pytest.Pytester, ini: str, given: list[str]
) -> None:
    pytester.makeini(f"[pytest]\n{ini}")
    pytester.makepyfile("def test_k(): pass")
    result = pytester.runpytest(*given)
    result.assert_outcomes(passed=1)
    assert "without --gpuperf" not in str(result.stdout) + str(result.stderr)


@pytest.mark.parametrize("fixture", ["gpuperf", "gpu_warmup", "gpu_timer", "ncu"])
def test_measuring_test_is_skipped_and_names_the_flag(pytester: pytest.Pytester, fixture: str) -> None:
    pytester.makepyfile(f"def test_k({fixture}): pass")
    expect(pytester.runpytest("-rs"), "SKIPPED*run pytest with --gpuperf", skipped=1)


def test_an_unknown_public_name_is_an_attribute_error() -> None:
    import pytest_gpuperf

    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        pytest_gpuperf.nonsense  # noqa: B018
