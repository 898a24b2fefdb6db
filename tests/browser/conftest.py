"""A headless browser, and tabs that note what a page does."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from docs.screenshots import browser as chromium

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Page


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture(scope="session")
def heard() -> list[str]:
    """Requests of pages, and what they write to the console."""
    return []


@pytest.fixture(scope="session")
def tab(browser: Browser, heard: list[str]) -> Callable[..., Page]:
    """A tab for all tests with the same options: a new one costs a second of CPU time."""

    @cache
    def opened_once(**options: Any) -> Page:
        page = browser.new_page(**options)
        page.on("console", lambda message: heard.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: heard.append(str(error)))
        page.on("request", lambda request: heard.append(request.url))
        return page

    return opened_once


@pytest.fixture
def opened(tab: Callable[..., Page], heard: list[str]) -> Iterator[Callable[..., Page]]:
    """Open a file; the test fails if the page writes to the console, or asks for anything but itself."""
    own: list[str] = []

    def open_page(
        path: Path, fragment: str = "", width: int = 1280, color_scheme: Any = "null", **options: Any
    ) -> Page:
        page = tab(**options)
        page.goto("about:blank")  # else another fragment of the same file would load nothing
        del heard[len(own) :]
        page.emulate_media(media="null", color_scheme=color_scheme)
        page.set_viewport_size({"width": width, "height": 800})
        own.append(path.as_uri())
        page.goto(path.as_uri() + fragment)
        return page

    yield open_page
    assert heard == own
