"""The web site of the repository, for links to the files of tests."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING

from pytest_gpuperf.against.git import Repository
from pytest_gpuperf.features.page.run_section import SourceLinks
from pytest_gpuperf.processes.git import GitError

if TYPE_CHECKING:
    from pathlib import Path

_REMOTE = re.compile(
    r"(?:https?://|ssh://|git://)?(?:[^@/\s]*@)?(?P<host>[\w.-]+)(?::\d+)?[:/](?P<path>[\w./~-]+?)"
)
"""A remote of git, without its user name and password."""


def source_links(root: Path) -> SourceLinks:
    """Find the repository of a project on GitHub or GitLab; the links are empty without one.

    Args:
        root: pytest's rootdir.
    """
    with suppress(GitError):
        repository = Repository(root)
        site = web_site(repository.git("remote", "get-url", "origin"))
        return SourceLinks(site, repository.git("rev-parse", "--show-prefix").strip().strip("/"))
    return SourceLinks()


def web_site(remote: str) -> str:
    """Return the address of a remote for a browser; empty unless GitHub or GitLab serves it."""
    found = _REMOTE.fullmatch(remote.strip().removesuffix("/").removesuffix(".git"))
    if found is None or not re.search(r"github|gitlab", found["host"]):
        return ""
    return f"https://{found['host']}/{found['path'].strip('/')}"
