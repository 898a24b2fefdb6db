"""Dashboard of a history."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from history_builders import commit_of, line, times
from page_parser import Page
from pytest_gpuperf.features.history.commit_order import Order
from pytest_gpuperf.features.history.commit_ranges import find_ranges
from pytest_gpuperf.features.history.dashboard import write_site
from pytest_gpuperf.features.history.series import series_of
from pytest_gpuperf.features.page.run_section import SourceLinks

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pytest

    from pytest_gpuperf.features.history.history_line import HistoryLine

REPOSITORY = "https://github.com/o/r"
STEP = times(*[5.0] * 6, *[5.2] * 6, url="https://github.com/o/r/actions/runs/1")


def write(folder: Path, lines: Sequence[HistoryLine], links: SourceLinks | None = None) -> str:
    order = Order("dates", "a test", {})
    series = series_of(lines, order)
    ranges = find_ranges(series, order, {})
    write_site(folder, series, ranges, order, links or SourceLinks(REPOSITORY))
    return (folder / "index.html").read_text(encoding="utf-8")


def test_page_has_changes_and_a_picture_for_each_time(tmp_path: Path) -> None:
    source = write(tmp_path / "site", [*STEP, *times(*[7.0] * 12, label="cold")])
    assert "+4.0 % (+3.8 to +4.2)" in source
    assert source.count("<article ") == 2
    assert [one.count("<title>") for one in Page(source).data] == [12, 12 + 2]  # a band, and its legend


def test_points_link_to_commit_and_run(tmp_path: Path) -> None:
    page = Page(write(tmp_path / "site", STEP))
    links = Page(page.data[0]).links
    assert links.count(f"{REPOSITORY}/commit/{commit_of(0)}") == 2  # of the point, and in the table
    assert links.count(STEP[0].url) == 12
    assert f"{REPOSITORY}/compare/{commit_of(5)}...{commit_of(6)}" in page.links


def test_page_loads_nothing(tmp_path: Path) -> None:
    page = Page(write(tmp_path / "site", STEP))
    assert not [tag for tag, found in page.tags if "src" in found or tag in ("link", "iframe", "img", "base")]
    assert page.policy.startswith("default-src 'none'")
    assert "unsafe" not in page.policy


def test_same_history_makes_the_same_page(tmp_path: Path) -> None:
    assert write(tmp_path / "a", STEP) == write(tmp_path / "b", STEP)


HOSTILE = st.text(st.sampled_from("<>&\"'/`=!-[]() ${}scriptonerrorhref:jav\u2028\x00\x1b"), max_size=40)


@settings(deadline=None, max_examples=20)
@given(name=HOSTILE, commit=HOSTILE, url=HOSTILE, version=HOSTILE)
def test_no_text_of_a_run_becomes_markup(
    tmp_path_factory: pytest.TempPathFactory, name: str, commit: str, url: str, version: str
) -> None:
    folder = tmp_path_factory.mktemp("site")
    usual = Page(write(folder, STEP))
    test = f"t/test_a.py::test[{name}]"
    hostile = times(
        *[5.0] * 6, *[5.2] * 6, test=test, label=name, commit=commit, url=url, driver=version, gpu_uuid=name
    )
    page = Page(write(folder, hostile))
    [usual_data], [data] = usual.data, page.data
    assert set(page.shape) <= set(usual.shape) | {("p",)}
    assert {tag for tag, _ in Page(data).tags} <= {tag for tag, _ in Page(usual_data).tags}
    assert not [name for _, found in Page(data).tags for name in found if name.startswith("on")]
    assert len(page.scripts[""]) == len(usual.scripts[""])
    assert all(link.startswith(("https://", "http://", "#")) for link in [*page.links, *Page(data).links])


def test_earlier_dashboard_is_replaced_and_other_files_stay(tmp_path: Path) -> None:
    folder = tmp_path / "site"
    write(folder, [line(0)])
    (folder / "CNAME").write_text("perf.example.org")
    assert "12 commits" in write(folder, STEP)
    assert (folder / "CNAME").read_text() == "perf.example.org"
