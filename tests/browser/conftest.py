"""A headless browser, and tabs that note requests and messages."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from docs.screenshots import browser as chromium

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Page


HEARD: list[str] = []
"""Requests of pages, and their lines on the console."""


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@cache
def tab(browser: Browser, **options: Any) -> Page:
    """Return a tab for all tests with the same options: a new one costs a second of CPU time."""
    page = browser.new_page(**options)
    page.on("console", lambda message: HEARD.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: HEARD.append(str(error)))
    page.on("request", lambda request: HEARD.append(request.url))
    return page


@pytest.fixture
def opened(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Open a file; the test fails if the page writes to the console, or asks for anything but itself."""
    own: list[str] = []
    HEARD.clear()

    def open_page(
        path: Path, fragment: str = "", width: int = 1280, color_scheme: Any = "null", **options: Any
    ) -> Page:
        assert own == HEARD
        page = tab(browser, **options)
        page.goto("about:blank")  # else another fragment of the same file would load nothing
        HEARD[:] = own
        page.emulate_media(media="null", color_scheme=color_scheme)
        page.set_viewport_size({"width": width, "height": 800})
        own.append(path.as_uri())
        page.goto(path.as_uri() + fragment)
        return page

    yield open_page
    assert own == HEARD
