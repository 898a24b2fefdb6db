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
