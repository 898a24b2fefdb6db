"""The line that says what is being measured."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_gpuperf.session.status_line import StatusLine


def reporter(isatty: bool) -> Any:
    """A terminal reporter that is 20 columns wide."""
    stream = io.StringIO()
    return SimpleNamespace(
        isatty=isatty,
        _tw=SimpleNamespace(_file=stream, fullwidth=20, flush=lambda: None),
        written=stream.getvalue,
    )


def test_a_terminal_shows_it_below_the_line_at_hand_and_the_cursor_comes_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    terminal = reporter(isatty=True)
    StatusLine(terminal).show("test_k: warms up, and more")
    written = terminal.written()
    assert written.startswith("\x1bD\x1bM\x1b7")
    assert written.endswith("test_k: warms up, a\x1b8")


@pytest.mark.parametrize(("isatty", "term"), [(False, "xterm"), (True, "dumb")])
def test_a_log_and_a_dumb_terminal_show_nothing(
    monkeypatch: pytest.MonkeyPatch, isatty: bool, term: str
) -> None:
    monkeypatch.setenv("TERM", term)
    terminal = reporter(isatty=isatty)
    StatusLine(terminal).show("test_k: warms up")
    assert terminal.written() == ""


def test_without_a_reporter_nothing_is_shown() -> None:
    StatusLine(None).show("test_k: warms up")
