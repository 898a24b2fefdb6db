"""What the name of a measurement is made of, and which names belong together.

A run keeps no arguments of a test but those in its id: `test_square[4096-bf16]` has the parameters `4096`
and `bf16`. A parameter is a number where it is one (`4096`), has a name in front (`N4096`, `N=4096`), or is a
shape (`1823x781`, `(1823, 781)`), which counts as its number of elements. A type (`fp16`, `int8`) is none.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

_T = TypeVar("_T")

# A minus sign and the exponent of a number are no separators.
_SEPARATOR = re.compile(r"(?<!^)(?<!-)(?<![\d.]e)-")
_NUMBER = re.compile(r"(?P<name>[^\W\d]*?)[=_]?(?P<number>-?\d+(?:\.\d*)?(?:e[+-]?\d+)?)", re.ASCII)
# Of one letter only the floats: i8 and u8 are as likely to be a count.
_TYPE = re.compile(
    r"(?:mx|nv)?fp(?:4|6|8|16|32|64)|(?:f|float)(?:8|16|32|64)|tf32|bf16|bfloat16|u?int(?:1|2|4|8|16|32|64)"
    r"|mxint8|complex(?:32|64|128)",
    re.IGNORECASE,
)
_SHAPE = re.compile(r"(?P<name>[^\W\d]*?)=?\(?(?P<extents>\d+(?:(?:x|, ?)\d+)+),?\)?", re.ASCII)


class Name(NamedTuple):
    """The parts of a measurement's name."""

    function: str
    """`suites/test_square.py::test_square_torch`."""
    label: str
    parameters: tuple[str, ...]

    @property
    def parts(self) -> tuple[str, ...]:
        """All of them, the parameters last."""
        return (self.function, self.label, *self.parameters)

    @classmethod
    def of_parts(cls, parts: Sequence[str]) -> Name:
        """The name that has these parts."""
        return cls(parts[0], parts[1], tuple(parts[2:]))


def name_of(nodeid: str, label: str) -> Name:
    """Take a node id apart."""
    file, colons, rest = nodeid.partition("::")
    function, _, ids = rest.partition("[")
    return Name(file + colons + function, label, tuple(_SEPARATOR.split(ids[:-1])) if ids else ())


def number_of(parameter: str) -> tuple[str, float] | None:
    """Name and value of a parameter that is a number, the name empty where it has none; else None."""
    if _TYPE.fullmatch(parameter):
        return None
    found = _NUMBER.fullmatch(parameter) or _SHAPE.fullmatch(parameter)
    if found is None:
        return None
    parts = found.groupdict()
    extents = re.findall(r"\d+", parts["extents"]) if "extents" in parts else [parts["number"]]
    value = math.prod(map(float, extents))
    return (parts["name"], value) if math.isfinite(value) else None


class Pairing(NamedTuple):
    """Which names of several groups belong together."""

    place: int | None
    """The one part in which they differ, as an index into `Name.parts`; None where the names are the same."""
    rows: Mapping[tuple[str, ...], Mapping[int, int]]
    """By the parts that they have in common: for groups, by index, the index of their name."""


def pair_up(groups: Sequence[Sequence[Name]]) -> Pairing | None:
    """Find the names that belong together.

    Names that two groups share belong together, as those of two runs do. Where there are none, names belong
    together that differ in one part only: the function, the label or one parameter, and it has to be one of
    which no two groups have a value in common.

    Returns:
        None where the groups have no such names.
    """
    sets = [{name.parts for name in group} for group in groups]
    if any(sets[0] & other for other in sets[1:]):
        return Pairing(None, _rows(groups, lambda name: name.parts))
    # A name of more parameters than another never has it as its partner, and both may have one.
    common = min(len(parts) for group in sets for parts in group)
    places = [place for place in range(common) if _disjoint([{p[place] for p in group} for group in sets])]
    if len(places) != 1:
        return None
    (place,) = places
    rows = _rows(groups, lambda name: (*name.parts[:place], *name.parts[place + 1 :]))
    paired = {index for row in rows.values() if len(row) > 1 for index in row.items()}
    # Two names of one group with the same partner: which of them is meant cannot be told.
    if not paired or sum(map(len, rows.values())) < sum(map(len, groups)):
        return None
    return Pairing(place, rows)


def varying(names: Sequence[Name]) -> list[int]:
    """The parts, as indices into `Name.parts`, that are not the same in all; all if their numbers differ."""
    width = max(len(name.parts) for name in names)
    if any(len(name.parts) < width for name in names):
        return list(range(width))
    return [place for place in range(width) if len({name.parts[place] for name in names}) > 1]


def short(name: Name, places: Collection[int]) -> str:
    """Only some parts of a name: `test_square[4096]`, `4096-bf16`, `test_square (cold)`."""
    function = name.function.rpartition("::")[2] if 0 in places else ""
    parameters = "-".join(part for place, part in enumerate(name.parameters, 2) if part and place in places)
    label = name.label if 1 in places else ""
    if function and parameters:
        parameters = f"[{parameters}]"
    text = function + parameters
    if not text:
        return label
    return f"{text} ({label})" if label and label != "main" else text


def told_apart(names: Sequence[Name], places: Collection[int]) -> list[str]:
    """Short names of some parts, or the whole names where those would not tell them apart."""
    found = [short(name, places) for name in names]
    if len(set(found)) == len(found):
        return found
    whole = [short(name, range(len(name.parts))) for name in names]
    # Functions of the same name in two files.
    return [name.function.rpartition("::")[0] + "::" + text for name, text in zip(names, whole, strict=True)]


def _rows(
    groups: Sequence[Sequence[Name]], key: Callable[[Name], tuple[str, ...]]
) -> dict[tuple[str, ...], dict[int, int]]:
    rows: dict[tuple[str, ...], dict[int, int]] = {}
    for group, names in enumerate(groups):
        for index, name in enumerate(names):
            rows.setdefault(key(name), {})[group] = index
    return rows


def _disjoint(sets: Sequence[set[_T]]) -> bool:
    return len(set().union(*sets)) == sum(map(len, sets))
