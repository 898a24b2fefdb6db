"""Reports of all recordings in Chromium."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from msgspec.structs import replace

from docs.screenshots import ROOT, write_report
from pytest_gpuperf.records import GpuInfo
from pytest_gpuperf.records.run_store import encode_run, load_run, recordings
from run_builders import measured, record, run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from playwright.sync_api import Page

RECORDINGS = recordings(ROOT / "baselines")
SMALLEST = min(
    (path for path in RECORDINGS if "nvidia-h200" in path.parts), key=lambda path: path.stat().st_size
)
SERIOUS = ("serious", "critical")
LARGEST = max(RECORDINGS, key=lambda path: path.stat().st_size).stem
NAMES = (*(path.stem for path in RECORDINGS), "two models")
ROWS = "main .scroll > table > tbody:visible"


@pytest.fixture(scope="session")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Reports by name: one for each recording, and one of two GPU models."""
    folder = tmp_path_factory.mktemp("reports")
    other = load_run(SMALLEST)
    gpu = GpuInfo(name="NVIDIA B200", slug="nvidia-b200", compute_capability="10.0")
    environment = replace(other.environment, gpu=gpu)
    (folder / "b200.json").write_bytes(encode_run(replace(other, id="of-b200", environment=environment)))
    arguments = {path.stem: [str(path)] for path in RECORDINGS}
    arguments["two models"] = [str(SMALLEST), str(folder / "b200.json")]
    for name, given in arguments.items():
        write_report(given, folder / f"{name}.html")
    return {name: folder / f"{name}.html" for name in arguments}


def names_of(page: Page) -> list[str]:
    return [text.strip() for text in page.locator(f"{ROWS} th.name").all_inner_texts()]


def faults(page: Page, *rules: str) -> list[tuple[str, Any]]:
    """Return the serious violations of some of axe's rules, of all by default."""
    chosen = {"resultTypes": ["violations"]} | ({"runOnly": [*rules]} if rules else {})
    found = Axe().run(page, options=chosen).response["violations"]
    return [(one["id"], one["nodes"][0]["html"]) for one in found if one["impact"] in SERIOUS]


@pytest.mark.parametrize("name", NAMES)
def test_every_row_opens_and_every_picture_is_drawn(
    reports: dict[str, Path], opened: Callable[..., Page], name: str
) -> None:
    page = opened(reports[name])
    rows = page.locator(ROWS).count()
    assert rows > 15
    # Those at the top have a time.
    page.locator("thead th:visible", has_text="time").locator("button").first.click()
    page.get_by_role("button", name="Open all").click()
    page.wait_for_function(
        "n => document.querySelectorAll('.details .facts').length >= n", arg=min(rows, 100) - 10
    )
    pictures = page.locator(".details svg.picture")
    drawn = pictures.evaluate_all("all => all.map(one => one.querySelectorAll('g').length)")
    assert len(drawn) >= 3
    assert min(drawn) > 0


@pytest.mark.parametrize("name", NAMES)
def test_page_has_no_serious_accessibility_fault(
    reports: dict[str, Path], opened: Callable[..., Page], name: str
) -> None:
    page = opened(reports[name], color_scheme="light")
    first = page.locator(f"{ROWS} .name button").first
    if first.get_attribute("aria-expanded") == "false":  # a failure is open
        first.click()
    # Rows that look alike would take seconds.
    page.locator(ROWS).evaluate_all("all => all.slice(6).forEach((body) => body.remove())")
    page.wait_for_selector(".details .part")
    assert faults(page) == []
    page.emulate_media(color_scheme="dark")
    assert faults(page, "color-contrast", "link-in-text-block") == []  # only the colours differ


def test_titles_sort_the_rows(reports: dict[str, Path], opened: Callable[..., Page]) -> None:
    page = opened(reports[LARGEST])
    head = page.locator("thead th", has_text="time")
    times = page.locator(f"{ROWS} > tr:first-child > :nth-child(3)")
    for order, descending in (("descending", True), ("ascending", False)):
        head.locator("button").click()
        values = times.evaluate_all("all => all.map(one => Number(one.dataset.v))")
        assert values == sorted(values, reverse=descending)
        assert head.get_attribute("aria-sort") == order
    page.locator("thead th.name button").click()
    names = names_of(page)
    assert names[0] < names[-1]
    assert head.get_attribute("aria-sort") == "none"


def test_words_and_verdicts_filter_the_rows(reports: dict[str, Path], opened: Callable[..., Page]) -> None:
    page = opened(reports[LARGEST])
    total = page.locator(ROWS).count()
    page.fill("input[type=search]", "liger RMS")
    assert [name for name in names_of(page) if "liger" not in name] == []
    shown = page.locator(ROWS).count()
    assert 0 < shown < total
    assert page.get_by_role("status").inner_text() == f"{shown} of {total} shown"
    page.fill("input[type=search]", "")
    chip = page.locator(".controls button.verdict", has_text="pass")
    chip.click()
    assert chip.get_attribute("aria-pressed") == "false"
    assert "pass" not in page.locator(f"{ROWS} .verdict").all_inner_texts()


def test_row_opens_and_closes_by_keyboard(reports: dict[str, Path], opened: Callable[..., Page]) -> None:
    page = opened(reports[LARGEST])
    button = page.locator(f"{ROWS} .name button").first
    button.focus()
    page.keyboard.press("Enter")
    page.wait_for_selector(".details .part")
    assert button.get_attribute("aria-expanded") == "true"
    page.keyboard.press("Escape")
    assert page.locator(".details").count() == 0
    assert button.evaluate("one => one === document.activeElement")


def test_address_opens_a_row(reports: dict[str, Path], opened: Callable[..., Page]) -> None:
    page = opened(reports["two models"], "#t2")
    page.wait_for_selector("#t2 .details .part")
    assert page.locator(".details").count() == 1


def test_worst_failure_is_open(tmp_path: Path, opened: Callable[..., Page]) -> None:
    tests = [record(f"t/test_a.py::test_{name}", main=measured(correct=name != "b")) for name in "abc"]
    (tmp_path / "run.json").write_bytes(encode_run(run(*tests)))
    write_report([str(tmp_path / "run.json")], tmp_path / "report.html")
    page = opened(tmp_path / "report.html")
    page.wait_for_selector(".details .part")
    assert page.locator("tbody:has(.details) .name button").all_inner_texts() == ["test_b"]


def test_each_gpu_model_has_a_page_of_its_own(reports: dict[str, Path], opened: Callable[..., Page]) -> None:
    page = opened(reports["two models"])
    assert page.locator("h2:visible").all_inner_texts() == ["NVIDIA H200"]
    page.get_by_role("link", name="NVIDIA B200").click()
    page.locator("h2", has_text="NVIDIA B200").wait_for()
    assert page.locator("h2:visible").all_inner_texts() == ["NVIDIA B200"]
    assert page.locator("nav a[aria-current]").inner_text() == "NVIDIA B200"


def test_table_is_complete_without_javascript(reports: dict[str, Path], browser: Any) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(reports["two models"].as_uri())
    assert page.locator("h2:visible").count() == 2
    assert page.locator(ROWS).count() == 2 * len(load_run(SMALLEST).tests)
    assert page.locator("button, input").count() == 0
    context.close()


@pytest.mark.parametrize("width", [360, 800, 1600])
def test_page_is_not_wider_than_its_window(
    reports: dict[str, Path], opened: Callable[..., Page], width: int
) -> None:
    page = opened(reports[LARGEST], width=width)
    page.locator(f"{ROWS} .name button").nth(3).click()
    page.wait_for_selector(".details .part")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_table_fits_a_phone_and_breaks_no_time(reports: dict[str, Path], opened: Callable[..., Page]) -> None:
    page = opened(reports[LARGEST], width=390)
    box = page.locator("main .scroll")
    assert box.evaluate("one => one.scrollWidth - one.clientWidth") <= 0
    assert "\N{NO-BREAK SPACE}µs" in (page.locator(f"{ROWS} td.number").first.text_content() or "")
    assert page.locator("main .spread:visible").count() == 0


def test_details_that_are_open_are_printed(
    reports: dict[str, Path], opened: Callable[..., Page], tmp_path: Path
) -> None:
    page = opened(reports["two models"])
    page.locator(f"{ROWS} .name button").first.click()
    page.wait_for_selector(".details .part")
    page.emulate_media(media="print")
    assert page.locator("section:visible").count() == 2
    assert page.locator(".controls:visible").count() == 0
    assert page.locator(".details .facts:visible").count() == 1


def test_large_table_is_shown_in_portions(tmp_path: Path, opened: Callable[..., Page]) -> None:
    tests = [record(f"t/test_a.py::test[{number}]", main=measured(number + 1.0)) for number in range(1100)]
    (tmp_path / "run.json").write_bytes(encode_run(run(*tests)))
    write_report([str(tmp_path / "run.json")], tmp_path / "report.html")
    page = opened(tmp_path / "report.html")
    status = page.get_by_role("status")
    assert status.inner_text() == "500 of 1100 shown, 600 more fit"
    page.locator("thead th:visible", has_text="time").locator("button").first.click()
    assert names_of(page)[0] == "test[1099]"
    page.get_by_role("button", name="Show more").click()
    assert page.locator(ROWS).count() == 1000
    page.fill("input[type=search]", "test[7]")
    assert status.inner_text() == "1 of 1100 shown"
    assert not page.get_by_role("button", name="Show more").is_visible()


def test_hostile_names_are_shown_and_not_run(tmp_path: Path, opened: Callable[..., Page]) -> None:
    name = "t/test_a.py::test[</script><img src=x onerror=document.title=1>]"
    path = tmp_path / "run.json"
    path.write_bytes(encode_run(run(record(name, "", main=measured(), **{"<b>": measured()}))))
    write_report([str(path)], tmp_path / "report.html")
    page = opened(tmp_path / "report.html")
    page.get_by_role("button", name="Open all").click()
    page.wait_for_selector(".details .part")
    assert page.title() == "Performance of GPU kernels: 2 new"
    assert page.locator(".details code").first.inner_text() == name
    assert page.locator("img, main b").count() == 0
