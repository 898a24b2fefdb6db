"""The one model of a table: what every report is made of, and what every output form renders."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

Place = Literal["group", "name", "unit", "number", "outcome", "prose", "detail"]
"""The role of a column. As text: `group` is a heading above the rows that share it; `name` is cut if the line
is too long; `unit`, `number` and `outcome` are never cut; `prose` is wrapped in the width that is left;
`detail` stands below its row. Markdown shows each of them as a column."""
Tone = Literal["", "bad", "unsure", "new", "good", "pass", "worse", "better", "absent"]
"""The meaning of a cell, which a renderer shows as a colour or a mark."""
EFFECTS: Mapping[bool | None, Tone] = {True: "worse", False: "better", None: ""}
"""Tone of a change, by whether it is one for the worse."""
RIGHT: frozenset[Place] = frozenset({"number", "outcome"})
KERNEL_COLUMNS = 44
"""Width to which the names of kernels are cut if a row then fits on one line."""


@dataclass(frozen=True)
class Column:
    """A title and the text of each row; a column without any text is left out."""

    title: str
    cells: Sequence[str]
    place: Place = "number"
    left: bool = False
    """True if numbers or outcomes are aligned to the left, as words are."""
    tones: Sequence[Tone] = ()
    """A meaning for each cell; empty for none."""
    code: bool = False
    """True if Markdown shows the cells as code: names from tests, files and kernels."""
    most: int = 0
    """Width to which a name is cut if its row then fits on one line; 0 for no such width."""
    wide: bool = False
    """True if only a wide terminal shows the column."""
    spare: int = 0
    """Loss if a wide terminal leaves the column out; it takes the least loss with which a row fits on a line.
    0 for a column that stays. Names are cut next."""
    follows: bool = False
    """True if text shows the cells behind those of the column before, below its title."""

    @property
    def justified_right(self) -> bool:
        """True if cells end at the same place."""
        return self.place in RIGHT and not self.left


@dataclass(frozen=True)
class Table:
    """Columns of the same length, the lines above them and the notes below them."""

    columns: Sequence[Column] = ()
    above: Sequence[str] = ()
    """Where the values are from."""
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Report:
    """Everything that a command shows."""

    tables: Sequence[Table]
    """For people."""
    records: Iterable[Mapping[str, object]]
    """For spreadsheets: flat rows, with all digits; iterated several times."""
    data: object = None
    """For programs: structured, with all digits, or a function that returns it; the records if None."""


class Screen(NamedTuple):
    """The place where text is shown."""

    width: int
    """In columns."""
    colour: bool = False
    """True if ANSI colours may be used."""
