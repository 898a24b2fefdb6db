"""What a session refuses."""

from __future__ import annotations

import pytest


def test_xdist_is_refused_with_one_line(pytester: pytest.Pytester, replay: None) -> None:
    pytest.importorskip("xdist")
    pytester.makepyfile("def test_k(gpuperf): pass")
    result = pytester.runpytest_subprocess("--gpuperf", "-n", "2")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: gpuperf: *under pytest-xdist; run --gpuperf without -n*"])
    assert "Traceback" not in result.stderr.str()


def test_one_process_of_xdist_is_fine(pytester: pytest.Pytester, replay: None) -> None:
    pytest.importorskip("xdist")
    pytester.makepyfile(test_k="def test_k(gpuperf):\n    gpuperf.time(print)\n")
    pytester.runpytest_subprocess("--gpuperf", "-n", "0").assert_outcomes(passed=1)


def test_two_timings_need_two_labels(pytester: pytest.Pytester, replay: None) -> None:
    pytester.makepyfile(test_k="def test_k(gpuperf):\n    gpuperf.time(print)\n    gpuperf.time(print)\n")
    result = pytester.runpytest("--gpuperf")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*has measured timing under the label 'main' already*label=*"])


def test_the_result_of_a_call_is_no_callable(pytester: pytest.Pytester, replay: None) -> None:
    pytester.makepyfile(test_k="def test_k(gpuperf):\n    gpuperf.time(3)\n")
    result = pytester.runpytest("--gpuperf")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*the first argument is a int*gpuperf.time(kernel, x)*"])


def test_tests_that_measure_nothing_are_left_alone(pytester: pytest.Pytester, replay: None) -> None:
    pytester.makepyfile("def test_plain(): pass")
    result = pytester.runpytest("--gpuperf")
    result.assert_outcomes(passed=1)
    assert "= gpuperf =" not in result.stdout.str()


def test_a_failed_assertion_of_the_test_itself_stays_what_it_is(
    pytester: pytest.Pytester, replay: None
) -> None:
    pytester.makepyfile(test_k="def test_k(gpuperf):\n    assert gpuperf.time(print).time_us < 1\n")
    result = pytester.runpytest("--gpuperf")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E*assert 5.3 < 1*"])


def test_junit_files_hold_what_was_measured(pytester: pytest.Pytester, replay: None) -> None:
    pytester.makepyfile(test_k="def test_k(gpuperf):\n    gpuperf.time(print)\n")
    pytester.runpytest("--gpuperf", "--junitxml=report.xml").assert_outcomes(passed=1)
    assert '<property name="gpuperf.main.time_us" value="5.3' in (pytester.path / "report.xml").read_text()


def test_markdown_is_appended_to_the_file_asked_for(pytester: pytest.Pytester, replay: None) -> None:
    pytester.makepyfile(test_k="def test_k(gpuperf):\n    gpuperf.time(print)\n")
    (pytester.path / "summary.md").write_text("before\n")
    pytester.runpytest("--gpuperf", "--gpuperf-markdown=summary.md").assert_outcomes(passed=1)
    text = (pytester.path / "summary.md").read_text()
    assert text.startswith("before\n")
    assert "5.30 µs" in text


def test_annotations_are_for_github_only(
    pytester: pytest.Pytester, replay: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(
        test_k="""
        def test_k(gpuperf):
            gpuperf.profile(print)
            gpuperf.limit("memory_throughput >= 99")
        """
    )
    assert "::error" not in pytester.runpytest("--gpuperf").stdout.str()
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    assert "::error file=test_k.py" in pytester.runpytest("--gpuperf").stdout.str()
