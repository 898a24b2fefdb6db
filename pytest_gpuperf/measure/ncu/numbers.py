"""Reading of numbers that ncu printed in the locale of its user."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from pytest_gpuperf.errors import GpuperfError

if TYPE_CHECKING:
    from collections.abc import Iterable


class Marks(NamedTuple):
    """The two marks in a number."""

    thousands: str
    decimal: str


ENGLISH, EUROPEAN = Marks(",", "."), Marks(".", ",")

_SPACES = " \u00a0\u2009\u202f'\u2019"
_SPACED = re.compile(rf"[-+]?\d{{1,3}}([{_SPACES}]\d{{3}})+([.,]\d+)?")
_WITHOUT_SPACES = str.maketrans("", "", _SPACES)
_THREE_AFTER_DOT = re.compile(r"[-+]?[1-9]\d{0,2}\.\d{3}")
_THREE_AFTER_COMMA = re.compile(r"[-+]?[1-9]\d{0,2},\d{3}")


def _grammar(marks: Marks) -> re.Pattern[str]:
    thousands, decimal = map(re.escape, marks)
    return re.compile(rf"[-+]?([1-9]\d{{0,2}}({thousands}\d{{3}})+|\d+)({decimal}\d+)?([eE][-+]?\d+)?")


_GRAMMARS = {marks: _grammar(marks) for marks in (ENGLISH, EUROPEAN)}


def marks_of(cells: Iterable[str]) -> Marks:
    """Find the marks of all numbers of a file.

    Cells that allow one reading decide. Without such a cell, exactly three digits after a dot are thousands:
    ncu prints two decimals, or six on the raw page.

    Raises:
        GpuperfError: Some cells allow only one reading, and others only the other.
    """
    plain = sorted({_plain(cell) for cell in cells})
    one_reading = [cell for cell in plain if sum(map(bool, _readings(cell))) == 1]
    by_reading = (_first(one_reading, _GRAMMARS[marks]) for marks in (ENGLISH, EUROPEAN))
    by_digits = (_first(plain, pattern) for pattern in (_THREE_AFTER_COMMA, _THREE_AFTER_DOT))
    for english, european in (tuple(by_reading), tuple(by_digits)):
        if english and european:
            raise GpuperfError(
                f"the numbers {english} and {european} are from different locales",
                expected="numbers of one locale",
                next_step="print them again with LC_ALL=C",
            )
        if english or european:
            return ENGLISH if english else EUROPEAN
    return ENGLISH


def number_of(cell: str, marks: Marks) -> float | None:
    """Read a number; None if the text is not one.

    Args:
        cell: Text as printed.
        marks: Marks of the file.
    """
    plain = _plain(cell)
    if not _GRAMMARS[marks].fullmatch(plain):
        return None
    return float(plain.replace(marks.thousands, "").replace(marks.decimal, "."))


def _plain(cell: str) -> str:
    return cell.translate(_WITHOUT_SPACES) if _SPACED.fullmatch(cell) else cell


def _readings(cell: str) -> list[bool]:
    return [grammar.fullmatch(cell) is not None for grammar in _GRAMMARS.values()]


def _first(cells: Iterable[str], pattern: re.Pattern[str]) -> str:
    return next((cell for cell in cells if pattern.fullmatch(cell)), "")
