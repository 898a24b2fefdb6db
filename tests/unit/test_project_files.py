"""Repeated facts in the files of the repository agree."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
RELATIVE_LINK = r"\]\((?!https://)[^)]*\)"


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_pre_commit_has_the_versions_of_the_lint_environment() -> None:
    tox = dict(re.findall(r"^    ([\w-]+)==([\d.]+)$", read("tox.ini"), re.MULTILINE))
    hooks = re.findall(
        r"/([\w-]+?)(?:-pre-commit)?\n    rev: v?([\d.]+)$", read(".pre-commit-config.yaml"), re.MULTILINE
    )
    assert len(hooks) == 5
    assert {name: tox[name] for name, _ in hooks} == dict(hooks)


def test_actions_are_pinned_by_commit_and_version() -> None:
    pinned: dict[str, set[str]] = {}
    for path in (
        *ROOT.glob(".github/workflows/*.yml"),
        *ROOT.glob("pytest_gpuperf/features/*/files/*.yml"),
    ):
        for action, commit in re.findall(
            r"uses: (\S+)@(.*)$", path.read_text(encoding="utf-8"), re.MULTILINE
        ):
            assert re.fullmatch(r"[0-9a-f]{40} # v\d+\.\d+\.\d+", commit), action
            pinned.setdefault(action, set()).add(commit)
    assert len(pinned) > 3
    assert {action: len(commits) for action, commits in pinned.items() if len(commits) > 1} == {}


def test_readme_on_pypi_has_no_relative_link() -> None:
    hooks = read("pyproject.toml").partition("fancy-pypi-readme.substitutions]]")[2]
    substitutions = re.findall(r"^pattern = '(.+)'\nreplacement = '(.+)'$", hooks, re.MULTILINE)
    assert len(substitutions) == 3
    text = read("README.md")
    assert re.search(RELATIVE_LINK, text)
    for pattern, replacement in substitutions:
        text = re.sub(pattern, replacement, text)
    assert re.findall(RELATIVE_LINK, text) == []
    assert re.search(r"!.*\]\(https://raw\.githubusercontent\.com/.*/main/docs/failing_test\.svg\)", text)
