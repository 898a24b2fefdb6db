"""Tests and baselines that have lost each other: a run that judges nothing is not green."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_gpuperf.baseline.acceptance import accept
from pytest_gpuperf.baseline.store import BaselineStore
from run_builders import measured, record, run
from run_results import expect

if TYPE_CHECKING:
    from collections.abc import Callable

    from runs_of_pytest import AddRecording

TIMED = "def {}(gpuperf):\n    gpuperf.time(print)\n"
OK, ERROR = pytest.ExitCode.OK, pytest.ExitCode.USAGE_ERROR


@pytest.fixture
def recorded(pytester: pytest.Pytester, add_recording: AddRecording) -> pytest.Pytester:
    """Make two suites, and baselines and a recording of both."""
    pytester.makeini("[pytest]")
    both = run(*(record(f"suites/test_{name}.py::test_{name}", main=measured(5.3)) for name in "ab"))
    accept(both, BaselineStore(pytester.path / "baselines"), "all", 5.0)
    add_recording(both)
    pytester.mkdir("suites")
    for name in "ab":
        (pytester.path / f"suites/test_{name}.py").write_text(TIMED.format(f"test_{name}"))
    return pytester


def test_path_through_a_link_is_the_test_of_its_file(recorded: pytest.Pytester) -> None:
    (recorded.path / "link").symlink_to("suites")
    (recorded.path / "test_link.py").symlink_to("suites/test_b.py")
    result = recorded.runpytest("--gpuperf", "link/test_a.py", "test_link.py")
    expect(result, "suites/test_a.py", "test_a *pass*", "suites/test_b.py", "test_b *pass*", passed=2)


def test_path_from_outside_of_the_rootdir_is_found(recorded: pytest.Pytester) -> None:
    outside = recorded.path.parent / f"{recorded.path.name}-link"
    outside.symlink_to(recorded.path)
    result = recorded.runpytest("--gpuperf", "-c", "tox.ini", str(outside / "suites/test_a.py"))
    result.assert_outcomes(passed=1)


def test_link_with_baselines_keeps_its_name(recorded: pytest.Pytester, add_recording: AddRecording) -> None:
    (recorded.path / "test_link.py").symlink_to("suites/test_b.py")
    add_recording(run(record("test_link.py::test_b", main=measured(7.7)), id="20261121-120000-aaaa"))
    recorded.runpytest("--gpuperf", "test_link.py").stdout.fnmatch_lines(["test_link.py", "test_b *7.70 µs*"])


def test_expected_failure_through_a_link_has_no_annotation(
    recorded: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    (recorded.path / "link").symlink_to("suites")
    (recorded.path / "suites/test_a.py").write_text(
        "import pytest\n\n@pytest.mark.xfail\n"
        + TIMED.format("test_a")
        + "    gpuperf.limit('time_us < 1')\n"
    )
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    result = recorded.runpytest("--gpuperf", "link/test_a.py")
    result.assert_outcomes(xfailed=1)
    assert "::error" not in result.stdout.str()


def renamed_file(suites: pytest.Pytester) -> None:
    (suites.path / "suites/test_a.py").rename(suites.path / "suites/test_c.py")


def renamed_tests(suites: pytest.Pytester) -> None:
    (suites.path / "suites/test_a.py").write_text(TIMED.format("test_c"))


def no_test(suites: pytest.Pytester) -> None:
    (suites.path / "suites/test_a.py").write_text("def time_a(gpuperf): pass\n")


CHANGES = pytest.mark.parametrize("change", [renamed_file, renamed_tests])


@pytest.mark.parametrize("path", ["suites/test_c.py", "suites/test_c.py::test_a"])
def test_replay_of_a_renamed_suite_fails(recorded: pytest.Pytester, path: str) -> None:
    renamed_file(recorded)
    result = recorded.runpytest("--gpuperf", path)
    assert result.ret == ERROR
    result.stdout.fnmatch_lines(["*error: no test was judged, 1 was skipped: *`gpuperf record`*"])


@pytest.mark.parametrize(
    ("change", "options"),
    [(renamed_file, []), (renamed_tests, []), (no_test, []), (no_test, ["--gpuperf-strict"])],
)
def test_baseline_file_whose_tests_are_all_gone_fails(
    recorded: pytest.Pytester, change: Callable[[pytest.Pytester], None], options: list[str]
) -> None:
    change(recorded)
    result = recorded.runpytest("--gpuperf", *options)
    assert result.ret == ERROR
    result.stdout.fnmatch_lines(
        ["*/test_a.json has baselines of 1 tests that do not exist*test_a.py::test_a*git rm*"]
    )
    (recorded.path / "baselines/nvidia-h200/test_a.json").unlink()
    assert recorded.runpytest("--gpuperf", *options).ret == OK


def test_baseline_in_a_file_of_another_name_is_lost(recorded: pytest.Pytester) -> None:
    renamed_file(recorded)
    path = recorded.path / "baselines/nvidia-h200/test_a.json"
    path.write_text(path.read_text().replace("test_a.py", "test_c.py"))
    result = recorded.runpytest("--gpuperf")
    assert result.ret == ERROR
    result.stdout.fnmatch_lines(
        ["*do not exist in a test_a.py, such as suites/test_c.py::test_a*name it as*"]
    )
    path.rename(path.with_name("test_c.json"))
    assert recorded.runpytest("--gpuperf").ret == OK


def test_paths_to_type_are_quoted(recorded: pytest.Pytester) -> None:
    folder = recorded.path / "my base"
    (recorded.path / "baselines").rename(folder)
    (folder / "nvidia-h200/test_b.json").unlink()
    renamed_file(recorded)
    result = recorded.runpytest("--gpuperf", "-v", "-o", f"gpuperf_baselines={folder.name}")
    result.stdout.fnmatch_lines(["*otherwise type `git rm 'my base/nvidia-h200/test_a.json'`"])
    assert "accept 'my base/nvidia-h200/recordings/" in " ".join(result.stdout.str().split())


@CHANGES
@pytest.mark.parametrize(
    "chosen", [["suites/test_b.py"], ["suites/test_b.py", "-k", "b"], ["suites/test_b.py::test_b"]], ids=str
)
def test_orphans_matter_only_to_runs_of_their_tests(
    recorded: pytest.Pytester, change: Callable[[pytest.Pytester], None], chosen: list[str]
) -> None:
    change(recorded)
    assert recorded.runpytest("--gpuperf", *chosen).ret == OK


def test_renamed_test_next_to_others_is_no_error(recorded: pytest.Pytester) -> None:
    recorded.path.joinpath("suites/test_a.py").write_text(TIMED.format("test_a") + TIMED.format("test_c"))
    recorded.runpytest("--gpuperf").assert_outcomes(passed=2, skipped=1)


def test_suite_that_skips_itself_is_no_orphan(recorded: pytest.Pytester) -> None:
    text = "import pytest\npytest.skip('no', allow_module_level=True)\n" + TIMED.format("test_a")
    (recorded.path / "suites/test_a.py").write_text(text)
    assert recorded.runpytest("--gpuperf").ret == OK


def test_tests_that_the_project_deselects_are_no_orphans(recorded: pytest.Pytester) -> None:
    recorded.makeconftest("def pytest_collection_modifyitems(items): del items[0]")
    assert recorded.runpytest("--gpuperf").ret == OK


@CHANGES
@pytest.mark.parametrize("arguments", [["--collect-only"], ["-k", "nothing"]])
def test_run_without_tests_says_nothing_of_orphans(
    recorded: pytest.Pytester, change: Callable[[pytest.Pytester], None], arguments: list[str]
) -> None:
    change(recorded)
    assert "do not exist" not in recorded.runpytest("--gpuperf", *arguments).stdout.str()


@pytest.mark.parametrize(("values", "said"), [(3, False), (4, True), (2, True)])
def test_ids_by_index_that_may_have_moved_are_named(
    pytester: pytest.Pytester, add_recording: AddRecording, values: int, said: bool
) -> None:
    names = [f"test_k.py::test_k[cfg{number}]" for number in range(4)]
    recorded = run(*(record(name, main=measured(5.3)) for name in names))
    accept(run(*recorded.tests[:3]), BaselineStore(pytester.path / "baselines"), "all", 5.0)
    add_recording(recorded)
    pytester.makepyfile(
        test_k=f"""
        import pytest

        @pytest.mark.parametrize("cfg", [object() for _ in range({values})])
        def test_k(gpuperf, cfg):
            gpuperf.time(print)
        """
    )
    output = pytester.runpytest("--gpuperf").stdout.str()
    notice = f"test_k.py::test_k[cfg*] has {values} values, and 3 in the baseline: ids by index may name"
    assert (notice in " ".join(output.split())) is said
