"""The page of a run: `--gpuperf-html`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
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
