"""A stand-in for pytest's terminal reporter."""

from __future__ import annotations


class Reporter:
    """What of pytest's terminal reporter the line needs."""

    def __init__(self, isatty: bool) -> None:
        self.isatty = isatty
        self.lines: list[str] = []
        self.rewritten: list[str] = []
        self.unseen = 0
        """Lines that are in a buffer."""

    def ensure_newline(self) -> None:
        pass

    def write_line(self, line: str) -> None:
        self.lines.append(line)
        self.unseen += 1

    def flush(self) -> None:
        self.unseen = 0

    def rewrite(self, line: str, erase: bool = False) -> None:
        self.rewritten.append(line)
