from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from pytest_gpuperf.features.page.run_section import SourceLinks
from pytest_gpuperf.features.page.source_links import source_links, web_site

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    "remote",
    [
        "https://github.com/o/r.git",
        "https://github.com/o/r/",
        "https://user:secret@github.com/o/r.git",
        "git@github.com:o/r.git",
        "ssh://git@github.com/o/r.git",
        "ssh://git@github.com:22/o/r",
    ],
)
def test_remote_becomes_an_address_without_credentials(remote: str) -> None:
    assert web_site(remote) == "https://github.com/o/r"


@pytest.mark.parametrize("remote", ["", "/srv/r.git", "file:///srv/github/r", "git@example.org:o/r", "a b"])
def test_other_remotes_have_no_address(remote: str) -> None:
    assert web_site(remote) == ""


def test_project_below_the_top_of_its_repository_has_a_prefix(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    remote = "git@github.com:o/r.git"
    subprocess.run(["git", "-C", str(tmp_path), "remote", "add", "origin", remote], check=True)
    (tmp_path / "perf").mkdir()
    links = source_links(tmp_path / "perf")
    assert links == SourceLinks("https://github.com/o/r", "perf")
    assert links.of_test("c0ffee", "test_a b.py::test", 3) == (
        "https://github.com/o/r/blob/c0ffee/perf/test_a%20b.py#L3"
    )


def test_project_in_no_repository_has_no_links(tmp_path: Path) -> None:
    assert source_links(tmp_path) == SourceLinks()
