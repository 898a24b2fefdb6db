"""The parts of a measurement's name, and the names that belong together.

A run keeps only those arguments of a test that are in its id: `test_square[4096-bf16]` has the parameters
`4096` and `bf16`. A parameter is a number if it is one (`4096`), has a name in front (`N4096`, `N=4096`), or
is a shape (`1823x781`, `(1823, 781)`), which counts as its number of elements. A type (`fp16`, `int8`) is
no number.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from pytest_gpuperf.features.compare.pairing import pair_up
from pytest_gpuperf.records.call import with_label

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

_T = TypeVar("_T")

# Minus signs and exponents do not separate.
_SEPARATOR = re.compile(r"(?<!^)(?<!-)-(?!(?<=[\d.]e-)\d)")
_NUMBER = re.compile(r"(?P<name>[^\W\d]*?)[=_]?(?P<number>-?\d+(?:\.\d*)?(?:e[+-]?\d+)?)", re.ASCII)
# Types of one letter are floats only: i8 and u8 may as well be counts.
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
        """All parts, the parameters last."""
        return (self.function, self.label, *self.parameters)

    @classmethod
    def of_parts(cls, parts: Sequence[str]) -> Name:
        """Return the name that has these parts."""
        return cls(parts[0], parts[1], tuple(parts[2:]))


def name_of(nodeid: str, label: str) -> Name:
    """Split a node id into the parts of a name."""
    file, colons, rest = nodeid.partition("::")
    function, _, ids = rest.partition("[")
    return Name(file + colons + function, label, tuple(_SEPARATOR.split(ids[:-1])) if ids else ())


def number_of(parameter: str) -> tuple[str, float] | None:
    """Return name and value of a parameter that is a number; the name may be empty. None for other words."""
    if _TYPE.fullmatch(parameter):
        return None
    found = _NUMBER.fullmatch(parameter) or _SHAPE.fullmatch(parameter)
    if found is None:
        return None
    parts = found.groupdict()
    extents = re.findall(r"\d+", parts["extents"]) if "extents" in parts else [parts["number"]]
    value = math.prod(map(float, extents))
    return (parts["name"], value) if math.isfinite(value) else None


class PairedNames(NamedTuple):
    """The names of several groups that belong together."""

    place: int | None
    """Index into `Name.parts` of the one part in which they differ; None if the names are the same."""
    rows: Sequence[Mapping[int, int]]
    """For each set of names: the index of the name by the index of its group."""


def pair_names(groups: Sequence[Sequence[Name]]) -> PairedNames | None:
    """Find the names that belong together.

    Names that two groups share belong together, as in two runs. If groups share none, names belong together
    that differ in one part only: the function, the label or one parameter. No two groups may have a value of
    that part in common.

    Returns:
        None if the groups have no such names.
    """
    sets = [{name.parts for name in group} for group in groups]
    if any(sets[0] & other for other in sets[1:]):
        return PairedNames(None, pair_up(groups, lambda name: name.parts))
    # A name with more parameters than another never has it as its partner, and both may have one.
    common = min(len(parts) for group in sets for parts in group)
    places = [place for place in range(common) if _disjoint([{p[place] for p in group} for group in sets])]
    if len(places) != 1:
        return None
    (place,) = places

    def others(name: Name) -> tuple[str, ...]:
        return (*name.parts[:place], *name.parts[place + 1 :])

    rows = pair_up(groups, others)
    # With two names of one group for the same partner, nothing tells which of them it belongs to.
    unique = all(len({others(name) for name in group}) == len(group) for group in groups)
    return PairedNames(place, rows) if unique and any(len(row) > 1 for row in rows) else None


def varying(names: Sequence[Name]) -> list[int]:
    """Return the indices into `Name.parts` of the parts that differ; all if the names differ in length."""
    width = max(len(name.parts) for name in names)
    if any(len(name.parts) < width for name in names):
        return list(range(width))
    return [place for place in range(width) if len({name.parts[place] for name in names}) > 1]


def short(name: Name, places: Collection[int]) -> str:
    """Show some parts of a name: `test_square[4096]`, `4096-bf16`, `test_square (cold)`."""
    function = name.function.rpartition("::")[2] if 0 in places else ""
    parameters = "-".join(part for place, part in enumerate(name.parameters, 2) if part and place in places)
    label = name.label if 1 in places else ""
    if function and parameters:
        parameters = f"[{parameters}]"
    text = function + parameters
    if not text:
        return label
    return with_label(text, label)


def told_apart(names: Sequence[Name], places: Collection[int]) -> list[str]:
    """Show some parts of each name, or the whole names if those parts are not unique."""
    found = [short(name, places) for name in names]
    if len(set(found)) == len(found):
        return found
    whole = [short(name, range(len(name.parts))) for name in names]
    # Two files have functions of the same name.
    return [name.function.rpartition("::")[0] + "::" + text for name, text in zip(names, whole, strict=True)]


def _disjoint(sets: Sequence[set[_T]]) -> bool:
    return len(set().union(*sets)) == sum(map(len, sets))
