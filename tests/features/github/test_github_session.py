"""Files that a run writes for GitHub."""

from __future__ import annotations

import pytest

from pytest_gpuperf.session.run_report import RunReport


def test_annotation_names_the_line_of_the_test(
    pytester: pytest.Pytester, replay: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(
        test_k="""
        # one line above

        def test_k(gpuperf):
            gpuperf.profile(print)
            gpuperf.limit("memory_throughput >= 99")
        """
    )
    assert "::error" not in pytester.runpytest("--gpuperf").stdout.str()  # not on GitHub
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(pytester.path.parent))
    folder = pytester.path.name
    pytester.runpytest("--gpuperf").stdout.fnmatch_lines([f"::error file={folder}/test_k.py,line=3,*"])


def test_unwritable_markdown_is_one_line_and_does_not_lose_the_run(
    pytester: pytest.Pytester, replay: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    finished: list[bool] = []
    monkeypatch.setattr(RunReport, "finish", lambda _, *, complete, passed: finished.append(complete))
    pytester.makepyfile(test_k="def test_k(gpuperf):\n    gpuperf.time(print)\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "nowhere/x.md")
    result = pytester.runpytest("--gpuperf")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stdout.fnmatch_lines(["gpuperf: error: *nowhere/x.md*"])
    assert finished == [True]


def test_markdown_is_written_without_a_terminal(
    pytester: pytest.Pytester, replay: None, forked_runs: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "x.md")
    pytester.makepyfile(test_k="def test_k(gpuperf):\n    gpuperf.time(print)\n")
    pytester.runpytest_subprocess("--gpuperf", "-p", "no:terminal")
    assert "5.30 µs" in (pytester.path / "x.md").read_text()
