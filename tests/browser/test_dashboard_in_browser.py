"""Dashboard of a history in Chromium."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from axe_playwright_python.sync_playwright import Axe

from docs.screenshots import write_dashboard
from history_builders import line, times
from pytest_gpuperf.cli import main
from pytest_gpuperf.features.history.store import HistoryStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from playwright.sync_api import Page

HOSTILE = "<img src=x onerror=\"document.title='taken'\"><script>document.title='taken'</script>"
SHOWN = ".series > article:visible"


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Dashboard of sessions of H200s."""
    return write_dashboard(tmp_path_factory.mktemp("recorded"))


@pytest.fixture(scope="session")
def made_up(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Dashboard of two GPU models, two suites and a hostile name."""
    folder = tmp_path_factory.mktemp("made_up")
    (folder / "pyproject.toml").touch()
    lines = [
        *times(*[5.0] * 6, *[5.2] * 6, url="https://github.com/o/r/actions/runs/1"),
        *times(*[7.0] * 6, gpu="nvidia-b200", gpu_name="NVIDIA B200"),
        line(0, test="t/test_other.py::test_one", dirty=True),
        line(0, test=f"t/test_other.py::test[{HOSTILE}]", commit=HOSTILE, driver=HOSTILE),
    ]
    HistoryStore(folder / "perf-history").add(lines)
    show = ["history", "show", "--site", str(folder / "site"), "--root", str(folder)]
    main(show, standalone_mode=False)
    return folder / "site" / "index.html"


def names(page: Page) -> list[str]:
    return page.locator(f"{SHOWN} h3").all_inner_texts()


def test_every_time_has_a_picture_when_it_is_seen(recorded: Path, opened: Callable[..., Page]) -> None:
    page = opened(recorded)
    for article in page.locator(SHOWN).all():
        article.scroll_into_view_if_needed()
        article.locator("svg .dot").nth(29).wait_for(state="attached")


def test_filters_choose_models_suites_names_and_changes(made_up: Path, opened: Callable[..., Page]) -> None:
    page = opened(made_up)
    assert len(names(page)) == 4
    page.get_by_label("GPU models").select_option("nvidia-b200")
    assert len(names(page)) == 1
    page.get_by_label("GPU models").select_option("")
    page.get_by_label("suites", exact=True).select_option("t/test_other.py")
    page.get_by_label("Filter the tests").fill("_one")
    assert names(page) == ["t/test_other.py::test_one"]
    page.get_by_label("suites", exact=True).select_option("")
    page.get_by_label("Filter the tests").fill("")
    page.get_by_label("with changes only").check()
    assert page.get_by_role("status").inner_text() == "1 of 4 shown"


def test_runs_of_a_time_link_to_commit_and_job(made_up: Path, opened: Callable[..., Page]) -> None:
    page = opened(made_up)
    article = page.locator("article[data-changes='1']")
    article.locator("summary").click()
    links = article.locator("tbody tr").first.locator("a")
    assert links.first.get_attribute("href") == "https://github.com/o/r/actions/runs/1"


def test_link_to_a_hidden_time_shows_it(made_up: Path, opened: Callable[..., Page]) -> None:
    page = opened(made_up)
    page.get_by_label("GPU models").select_option("nvidia-b200")
    page.evaluate("location.hash = document.querySelector('article[data-changes=\"1\"]').id")
    page.locator("article[data-changes='1']").wait_for(state="visible")


def test_hostile_name_stays_text(made_up: Path, opened: Callable[..., Page]) -> None:
    page = opened(made_up)
    page.get_by_label("Filter the tests").fill("onerror")
    page.locator(f"{SHOWN} summary").click()
    page.locator(f"{SHOWN} svg .dot").first.wait_for(state="attached")
    assert page.title() == "gpuperf history"
    assert page.locator("img").count() == 0
    assert HOSTILE in page.locator(f"{SHOWN} h3").inner_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_dashboard_has_no_serious_accessibility_fault(
    recorded: Path, opened: Callable[..., Page], scheme: str
) -> None:
    page = opened(recorded, color_scheme=scheme)
    page.locator("summary").first.click()
    page.locator("svg .dot").first.wait_for(state="attached")
    found = Axe().run(page).response["violations"]
    assert [one["id"] for one in found if one["impact"] in ("serious", "critical")] == []


def test_page_without_scripts_names_changes_and_times(recorded: Path, opened: Callable[..., Page]) -> None:
    page = opened(recorded, java_script_enabled=False)
    assert page.get_by_text(re.compile(r"\+1\.0 % \(\+0\.\d to \+1\.\d\)")).first.is_visible()
    assert len(names(page)) == 4
