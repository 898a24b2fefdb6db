"""The web site of the repository, for links to the files of tests."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import TYPE_CHECKING

from pytest_gpuperf.against.git import Repository
from pytest_gpuperf.features.page.section import SourceLinks
from pytest_gpuperf.processes.git import GitError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_REMOTE = re.compile(
    r"(?:https?://|ssh://|git://)?(?:[^@/\s]*@)?(?P<host>[\w.-]+)(?::\d+)?[:/](?P<path>[\w./~-]+?)"
)
"""A remote of git, without its user name and password."""


def source_links(root: Path, environ: Mapping[str, str] = os.environ) -> SourceLinks:
    """Find the repository of a project on GitHub or GitLab; the links are empty without one.

    Args:
        root: pytest's rootdir.
        environ: The environment variables, in which GitHub and GitLab name the repository.
    """
    with suppress(GitError):
        repository = Repository(root)
        prefix = repository.git("rev-parse", "--show-prefix").strip().strip("/")
        site = _of_ci(environ)
        with suppress(GitError):
            site = site or web_site(repository.git("remote", "get-url", "origin"))
        return SourceLinks(site, prefix)
    return SourceLinks(_of_ci(environ))


def web_site(remote: str) -> str:
    """Return the address of a remote for a browser; empty unless GitHub or GitLab serves it."""
    found = _REMOTE.fullmatch(remote.strip().removesuffix("/").removesuffix(".git"))
    if found is None or not re.search(r"github|gitlab", found["host"]):
        return ""
    return f"https://{found['host']}/{found['path'].strip('/')}"


def _of_ci(environ: Mapping[str, str]) -> str:
    if environ.get("GITHUB_REPOSITORY"):
        return f"{environ.get('GITHUB_SERVER_URL', 'https://github.com')}/{environ['GITHUB_REPOSITORY']}"
    return environ.get("CI_PROJECT_URL", "")
