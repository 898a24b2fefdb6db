"""The line that shows the current measurement."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_gpuperf.session.progress import Display, News


def reporter(isatty: bool) -> Any:
    """A terminal reporter with 20 columns."""
    stream = io.StringIO()
    return SimpleNamespace(
        isatty=isatty,
        config=SimpleNamespace(pluginmanager=SimpleNamespace(get_plugin=lambda _: None)),
        _tw=SimpleNamespace(_file=stream, fullwidth=20, flush=lambda: None),
        written=stream.getvalue,
    )


def test_terminal_shows_status_below_the_current_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    terminal = reporter(isatty=True)
    Display(News(), terminal).show("test_k: warms up, and more")
    written = terminal.written()
    assert written.startswith("\x1bD\x1bM\x1b7")
    assert written.endswith("test_k: warms up, a\x1b8")


@pytest.mark.parametrize(("isatty", "term"), [(False, "xterm"), (True, "dumb")])
def test_log_and_dumb_terminal_show_nothing(monkeypatch: pytest.MonkeyPatch, isatty: bool, term: str) -> None:
    monkeypatch.setenv("TERM", term)
    terminal = reporter(isatty=isatty)
    Display(News(), terminal).show("test_k: warms up")
    assert terminal.written() == ""


def test_status_line_is_not_captured(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    pytester.makepyfile(
        """
        from pytest_gpuperf.session.progress import News
        from pytest_gpuperf.session.progress import Display

        def test_k(request, capfd):
            reporter = request.config.pluginmanager.get_plugin("terminalreporter")
            reporter.isatty = True
            Display(News(), reporter).show("test_k: warms up")
            assert capfd.readouterr() == ("", "")
        """
    )
    result = pytester.runpytest_subprocess()
    result.assert_outcomes(passed=1)
    assert "test_k: warms up" in result.stdout.str()
