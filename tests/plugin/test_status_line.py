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


@pytest.mark.parametrize(
    ("isatty", "term", "shows"), [(True, "xterm", True), (False, "xterm", False), (True, "dumb", False)]
)
def test_only_a_terminal_shows_status_below_the_current_line(
    monkeypatch: pytest.MonkeyPatch, term: str, *, isatty: bool, shows: bool
) -> None:
    monkeypatch.setenv("TERM", term)
    terminal = reporter(isatty=isatty)
    Display(News(), terminal).show("test_k: warms up, and more")
    written = terminal.written()
    shown = ("\x1bD\x1bM\x1b7", "test_k: warms up, a\x1b8") if shows else ("", "")
    assert (written[:6], written[-21:]) == shown


def test_status_line_is_not_captured(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    pytester.makepyfile(
        """
        from pytest_gpuperf.session.progress import Display, News

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
