"""Write real output into the pages: `python -m docs.update_output [PAGE…]`, in the root of the repository.

A comment in a page says what follows it, and this script puts it there:

    <!-- output: COMMAND -->            a text block: the output of COMMAND in a copy of the project
    <!-- output, STATE: COMMAND -->     the same after a function of `docs.states` has changed the copy
    <!-- table, STATE: COMMAND -->      the same, only the tables: no description of the run, no notes
    <!-- picture, STATE: COMMAND -->    the same as an SVG file, which the next line shows
    <!-- file: PATH -->                 the next code block is a file of the copy, for the next output
    <!-- generated: NAME -->            a table or an excerpt made by `docs.generated`

The copy has no GPU, so `pytest --gpuperf` replays the recordings in `baselines/`. The largest is also in
`.gpuperf/runs/`, as if it had just been measured.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import re
import shutil
import sys
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from docs import commands, generated, states
from pytest_gpuperf._version import requirement

ROOT = Path(__file__).parent.parent
PRELOAD = [*commands.SLOW_IMPORTS, "docs.states", "docs.commands"]
"""Modules that the server of the forked processes imports first."""
_FILE = re.compile(r"<!-- file: (?P<path>\S+) -->\n```\w*\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_BLOCK = re.compile(
    r"^<!-- (?:(?:output|table|picture)(?:, (?P<state>\w+))?: (?P<command>.+)|generated: (?P<name>\w+)) -->\n"
    r"(?P<body>```text\n(?:.*\n)*?```\n|(?:.+\n)*)",
    re.MULTILINE,
)
_INSTALL = re.compile(r"""pip install (["'])pytest-gpuperf(?:\[(?P<extras>[\w,]+)\])?(?: @ [^"']+)?\1""")
_RULE = re.compile(r"^-{3,}$", re.MULTILINE)
"""The line below the head of a table."""
_PICTURE = re.compile(r"!\[[^\]]*\]\((?P<path>[^)]+)\)\n")


@dataclass(frozen=True)
class Block:
    """A marked block of a page."""

    root: Path
    page: str
    """Path below the root."""
    marker: str
    body: str
    """Text of the page below the marker."""
    command: str
    state: str
    name: str
    files: dict[str, str]

    @property
    def file(self) -> Path:
        """File that holds the block: a picture, or the page."""
        page = self.root / self.page
        if self.marker.startswith("<!-- picture"):
            link = _PICTURE.match(self.body)
            assert link, f"{self.page}: no picture below {self.marker}"
            return page.parent / link["path"]
        return page

    @property
    def shown(self) -> str:
        """Present content of the block."""
        if self.file.suffix != ".svg":
            return self.body
        return self.file.read_text(encoding="utf-8") if self.file.exists() else ""

    def wanted(self, copied: Path) -> str:
        """Return the content that the block should have; call it in a process of its own.

        Args:
            copied: A copy of the project.
        """
        if self.name:
            return generated.GENERATED[self.name](self.root)
        drawn = self.file.suffix == ".svg"
        with tempfile.TemporaryDirectory() as folder:
            project = Path(folder) / "project"
            shutil.copytree(copied, project)
            if self.state:
                getattr(states, self.state)(project)
            for path, text in self.files.items():
                (project / path).write_text(text, encoding="utf-8")
            output = commands.printed(self.command, project, Path(folder) / "log", colour=drawn)
        if self.marker.startswith("<!-- table"):
            output = "\n\n".join(part for part in output.split("\n\n") if _RULE.search(part))
        return (
            commands.picture(self.command, output) if drawn else f"```text\n$ {self.command}\n{output}\n```\n"
        )

    def write(self, content: str) -> None:
        """Replace the content of the block."""
        if self.file.suffix != ".svg":
            before, after = (f"{self.marker}\n{shown}" for shown in (self.body, content))
            content = self.file.read_text(encoding="utf-8").replace(before, after)
        self.file.write_text(content, encoding="utf-8")


def pages(root: Path) -> list[Path]:
    """List README, CONTRIBUTING and the pages of the documentation."""
    return [root / "README.md", root / "CONTRIBUTING.md", *sorted((root / "docs").rglob("*.md"))]


def with_installs(text: str) -> str:
    """Return a page whose commands install the package from where it is."""
    return _INSTALL.sub(lambda found: f"pip install '{requirement(found['extras'] or '')}'", text)


def blocks(root: Path) -> list[Block]:
    """List the marked blocks of all pages."""
    found = []
    for page in pages(root):
        text = page.read_text(encoding="utf-8")
        end = 0
        for match in _BLOCK.finditer(text):
            files = {file["path"]: file["text"] for file in _FILE.finditer(text, end, match.start())}
            end = match.end()
            state, command, name = (part or "" for part in match.group("state", "command", "name"))
            marker = match[0].partition("\n")[0]
            shown = page.relative_to(root).as_posix()
            found.append(Block(root, shown, marker, match["body"], command, state, name, files))
    return found


def contents(wanted: list[Block]) -> list[str]:
    """Return the content that each block should have, each from a forked process."""
    context = multiprocessing.get_context("forkserver")
    processes = min(len(wanted), os.cpu_count() or 1)
    with tempfile.TemporaryDirectory() as folder, context.Pool(processes, maxtasksperchild=1) as pool:
        copied = Path(folder) / "project"
        states.copy_project(ROOT, copied)
        return pool.map(partial(Block.wanted, copied=copied), wanted, chunksize=1)


def main() -> None:
    """Rewrite the blocks whose output has changed."""
    parser = argparse.ArgumentParser(description="Write real output into the pages.")
    parser.add_argument("pages", nargs="*", help="update only these pages, by their paths")
    only = parser.parse_args().pages
    multiprocessing.get_context("forkserver").set_forkserver_preload(PRELOAD)
    known = {page.relative_to(ROOT).as_posix() for page in pages(ROOT)}
    if unknown := set(only) - known:
        parser.error(f"no such page: {', '.join(sorted(unknown))}; name it from the root of the repository")
    for page in pages(ROOT):
        text = page.read_text(encoding="utf-8")
        if with_installs(text) != text:
            page.write_text(with_installs(text), encoding="utf-8")
    chosen = [block for block in blocks(ROOT) if not only or block.page in only]
    for block, content in zip(chosen, contents(chosen) if chosen else [], strict=True):
        if content != block.shown:
            block.write(content)
            sys.stdout.write(f"{block.page}: {block.marker}\n")


if __name__ == "__main__":
    main()
