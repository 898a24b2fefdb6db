"""What a session refuses."""

from __future__ import annotations

import pytest

from pytest_gpuperf.session.base import Runner


def test_xdist_is_refused_with_one_line(pytester: pytest.Pytester, replay: None) -> None:
    pytest.importorskip("xdist")
    pytester.makepyfile("def test_k(gpuperf): pass")
    result = pytester.runpytest_subprocess("--gpuperf", "-p", "xdist", "-n", "2")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: gpuperf: *under pytest-xdist; run --gpuperf without -n*"])
    assert "Traceback" not in result.stderr.str()


def test_one_process_of_xdist_is_fine(pytester: pytest.Pytester, replay: None) -> None:
    pytest.importorskip("xdist")
    pytester.makepyfile(test_k="def test_k(gpuperf):\n    gpuperf.time(print)\n")
    pytester.runpytest_subprocess("--gpuperf", "-p", "xdist", "-n", "0").assert_outcomes(passed=1)


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


@pytest.mark.parametrize("arguments", [["-d", "--tx=2*popen"], ["--dist=each", "--tx=2*popen"]])
def test_every_way_to_spread_tests_is_refused(
    pytester: pytest.Pytester, replay: None, arguments: list[str]
) -> None:
    pytest.importorskip("xdist")
    pytester.makepyfile("def test_k(gpuperf): pass")
    result = pytester.runpytest_subprocess("--gpuperf", "-p", "xdist", *arguments, timeout=30)
    assert result.ret == pytest.ExitCode.USAGE_ERROR


@pytest.mark.parametrize("value", ["-4", "2.5", "None", "'many'", "float('nan')", "float('inf')"])
def test_bytes_are_a_whole_number(pytester: pytest.Pytester, replay: None, value: str) -> None:
    pytester.makepyfile(test_k=f"def test_k(gpuperf):\n    gpuperf.time(print, bytes={value})\n")
    result = pytester.runpytest("--gpuperf")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*bytes=*expected how many bytes one call has, a whole number*"])


@pytest.mark.parametrize("value", ["np.prod((64, 64))", "4096.0", "np.float32(4096)"])
def test_numbers_of_numpy_are_fine(pytester: pytest.Pytester, replay: None, value: str) -> None:
    pytester.makepyfile(
        test_k=f"""
        import numpy as np

        def test_k(gpuperf):
            timing = gpuperf.time(print, flops={value})
            assert type(timing.flops) is int
            assert timing.flops == 4096
        """
    )
    pytester.runpytest("--gpuperf").assert_outcomes(passed=1)


def test_the_one_line_takes_what_its_parts_take(pytester: pytest.Pytester, replay: None) -> None:
    pytester.makepyfile(
        test_k="""
        def test_k(gpuperf):
            gpuperf(print, expected=print, mutates=(0,), equal_nan=True, mode="hot")
        """
    )
    pytester.runpytest("--gpuperf").assert_outcomes(passed=1)


def test_a_failed_unittest_is_no_pass(pytester: pytest.Pytester, replay: None) -> None:
    pytester.makepyfile(
        test_k="""
        import unittest
        import pytest

        class TestK(unittest.TestCase):
            @pytest.fixture(autouse=True)
            def take(self, gpuperf):
                self.gpuperf = gpuperf

            def test_k(self):
                self.fail("on purpose")
        """
    )
    result = pytester.runpytest("--gpuperf")
    result.assert_outcomes(failed=1)
    assert "= gpuperf =" not in result.stdout.str()


def test_an_expected_failure_is_no_annotation(
    pytester: pytest.Pytester, replay: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(
        test_k="""
        import pytest

        @pytest.mark.xfail(strict=True)
        def test_k(gpuperf):
            gpuperf.profile(print)
            gpuperf.limit("memory_throughput >= 99")
        """
    )
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    result = pytester.runpytest("--gpuperf")
    result.assert_outcomes(xfailed=1)
    assert "::error" not in result.stdout.str()


def test_an_annotation_stands_beside_the_test(
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
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(pytester.path.parent))
    folder = pytester.path.name
    pytester.runpytest("--gpuperf").stdout.fnmatch_lines([f"::error file={folder}/test_k.py,line=3,*"])


def test_a_fixture_asked_for_while_the_test_runs_is_refused(pytester: pytest.Pytester, replay: None) -> None:
    pytester.makepyfile(
        test_k="""
        def test_k(gpuperf): pass
        def test_late(request): request.getfixturevalue("gpuperf")
        """
    )
    result = pytester.runpytest("--gpuperf")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*expected it among the test's arguments*"])


def test_a_test_that_runs_again_begins_afresh(pytester: pytest.Pytester, replay: None) -> None:
    pytester.makeconftest(
        """
        from _pytest.runner import runtestprotocol

        def pytest_runtest_protocol(item, nextitem):
            runtestprotocol(item, nextitem=nextitem, log=False)
            runtestprotocol(item, nextitem=nextitem)
            return True
        """
    )
    pytester.makepyfile(test_k="def test_k(gpuperf):\n    gpuperf.time(print)\n")
    pytester.runpytest("--gpuperf").assert_outcomes(passed=1)


def test_markdown_that_cannot_be_written_is_one_line(pytester: pytest.Pytester, replay: None) -> None:
    pytester.makepyfile(test_k="def test_k(gpuperf):\n    gpuperf.time(print)\n")
    result = pytester.runpytest("--gpuperf", "--gpuperf-markdown=nowhere/x.md")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stdout.fnmatch_lines(["gpuperf: error: *nowhere/x.md*"])


def test_markdown_is_written_without_a_terminal(pytester: pytest.Pytester, replay: None) -> None:
    pytester.makepyfile(test_k="def test_k(gpuperf):\n    gpuperf.time(print)\n")
    pytester.runpytest_subprocess("--gpuperf", "-p", "no:terminal", "--gpuperf-markdown=x.md")
    assert "5.30 µs" in (pytester.path / "x.md").read_text()


def test_a_summary_that_cannot_be_written_does_not_lose_the_run(
    pytester: pytest.Pytester, replay: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    finished: list[bool] = []
    monkeypatch.setattr(Runner, "finish", lambda _, *, complete: finished.append(complete))
    pytester.makepyfile(test_k="def test_k(gpuperf):\n    gpuperf.time(print)\n")
    pytester.runpytest("--gpuperf", "--gpuperf-markdown=nowhere/x.md")
    assert finished == [True]


def test_a_run_that_cannot_be_written_does_not_lose_the_summary(
    pytester: pytest.Pytester, replay: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: Runner, *, complete: bool) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(Runner, "finish", full)
    pytester.makepyfile(test_k="def test_k(gpuperf):\n    gpuperf.time(print)\n")
    result = pytester.runpytest("--gpuperf", "--gpuperf-markdown=x.md")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stdout.fnmatch_lines(["gpuperf: error: no space left on device"])
    assert "5.30 µs" in (pytester.path / "x.md").read_text()
