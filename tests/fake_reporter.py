"""A fake of pytest's terminal reporter."""

from __future__ import annotations


class Reporter:
    """The parts of pytest's terminal reporter that the status line uses."""

    def __init__(self, isatty: bool) -> None:
        self.isatty = isatty
        self.lines: list[str] = []
        self.rewritten: list[str] = []
        self.unseen = 0
        """Number of lines in the buffer."""

    def ensure_newline(self) -> None:
        pass

    def write_line(self, line: str) -> None:
        self.lines.append(line)
        self.unseen += 1

    def flush(self) -> None:
        self.unseen = 0

    def rewrite(self, line: str, erase: bool = False) -> None:
        self.rewritten.append(line)
