"""The text of a failed test, with colours for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _pytest._io import TerminalWriter

PREFIX = "gpuperf: "
"""Begin of each finding; lines below it are indented."""
_INTENDED = "if this is intended"


class Failure(str):
    """Text of a failed test: findings are red, the way to accept a change is dim."""

    __slots__ = ()

    def toterminal(self, writer: TerminalWriter) -> None:
        """Write the text; pytest calls this for its section of failures."""
        for line in self.splitlines():
            found = line.startswith(PREFIX)
            writer.line(line, red=found, bold=found, light=line.strip().startswith(_INTENDED))
