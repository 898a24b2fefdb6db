"""A headless browser, and tabs that note what a page does."""

from __future__ import annotations

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


@pytest.fixture
def opened(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Open a file; the test fails if the page writes to the console, or asks for anything but itself."""
    complaints: list[str] = []
    asked: list[str] = []
    own: list[str] = []
    pages: list[Page] = []

    def open_page(path: Path, fragment: str = "", **options: Any) -> Page:
        page = browser.new_page(**options)
        pages.append(page)
        page.on("console", lambda message: complaints.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(path.as_uri() + fragment)
        own.append(path.as_uri())
        return page

    yield open_page
    for page in pages:
        page.close()
    assert complaints == []
    assert asked == own
