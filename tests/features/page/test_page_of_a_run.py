"""The page of a run: `--gpuperf-html`."""

from __future__ import annotations

import pytest


def test_report_is_written_to_the_named_file(pytester: pytest.Pytester, replay: None) -> None:
    pytester.makepyfile(
        test_k="""
        def test_k(gpuperf):
            gpuperf.profile(print)
            gpuperf.limit("memory_throughput >= 99")
        """
    )
    result = pytester.runpytest("--gpuperf", "--gpuperf-html=out/report.html")
    result.stdout.fnmatch_lines(["gpuperf: report written to out/report.html"])
    text = (pytester.path / "out" / "report.html").read_text()
    assert "1 limit" in text
    assert "memory_throughput" in text


def test_report_replaces_no_other_file(pytester: pytest.Pytester, replay: None) -> None:
    pytester.makepyfile(test_k="def test_k(gpuperf):\n    gpuperf.time(print)\n")
    (pytester.path / "notes.html").write_text("mine\n")
    result = pytester.runpytest("--gpuperf", "--gpuperf-html=notes.html")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stdout.fnmatch_lines(
        ["gpuperf: error: notes.html exists and was not written by*remove it, or name another file"]
    )
    assert (pytester.path / "notes.html").read_text() == "mine\n"
