"""Write real output into the pages: `python -m docs.update_output`, in the root of the repository.

A page says by a comment what belongs below it, and this script puts it there:

    <!-- output: COMMAND -->            a text block: what COMMAND prints in a copy of the project
    <!-- output, STATE: COMMAND -->     the same after a function of `docs.states` has changed the copy
    <!-- file: PATH -->                 the code block below is a file of the copy, for the next output
    <!-- generated: NAME -->            a table or an excerpt that `docs.generated` makes

There is no GPU in the copy, so `pytest --gpuperf` judges the newest recording below `baselines/` again. The
same run lies in `.gpuperf/runs/`, as if it had just been measured.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import re
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from docs import commands, generated, states

_FILE = re.compile(r"<!-- file: (?P<path>\S+) -->\n```\w*\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_BLOCK = re.compile(
    r"^<!-- (?:output(?:, (?P<state>\w+))?: (?P<command>.+)|generated: (?P<name>\w+)) -->\n"
    r"(?P<body>```text\n(?:.*\n)*?```\n|(?:.+\n)*)",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Block:
    """A marked block of a page."""

    root: Path
    page: str
    """Its path below the root."""
    marker: str
    body: str
    """What stands there now."""
    command: str
    state: str
    name: str
    files: dict[str, str]

    def present(self) -> str:
        """What should stand there; to be called in a process of its own."""
        if self.name:
            return generated.GENERATED[self.name](self.root)
        with tempfile.TemporaryDirectory() as folder:
            project = Path(folder) / "project"
            states.copy_project(self.root, project)
            if self.state:
                getattr(states, self.state)(project)
            for path, text in self.files.items():
                (project / path).write_text(text, encoding="utf-8")
            shown = commands.printed(self.command, project, Path(folder) / "log")
        return f"```text\n$ {self.command}\n{shown}\n```\n"


def pages(root: Path) -> list[Path]:
    """README, CONTRIBUTING and the pages of the documentation."""
    return [root / "README.md", root / "CONTRIBUTING.md", *sorted((root / "docs").rglob("*.md"))]


def blocks(root: Path) -> list[Block]:
    """All marked blocks of all pages."""
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


def present(wanted: list[Block]) -> list[str]:
    """What should stand in each block."""
    # Each in a process of its own, forked off one that has the slow imports behind it.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([*commands.SLOW_IMPORTS, "docs.states", "docs.commands"])
    with context.Pool(min(len(wanted), os.cpu_count() or 1), maxtasksperchild=1) as pool:
        return pool.map(Block.present, wanted, chunksize=1)


def main() -> None:
    """Rewrite the blocks that have changed."""
    parser = argparse.ArgumentParser(description="Write real output into the pages.")
    parser.add_argument("--root", type=Path, default=Path(__file__).parent.parent, help="the repository")
    wanted = blocks(parser.parse_args().root.resolve())
    for block, body in zip(wanted, present(wanted), strict=True):
        if body != block.body:
            path = block.root / block.page
            text = path.read_text(encoding="utf-8")
            before, after = (f"{block.marker}\n{shown}" for shown in (block.body, body))
            path.write_text(text.replace(before, after), encoding="utf-8")
            sys.stdout.write(f"{block.page}: {block.marker}\n")


if __name__ == "__main__":
    main()
