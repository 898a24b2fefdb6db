"""The parameter of tests over which a plot is drawn: it is a number and differs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.features.compare.measurement_names import number_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_gpuperf.features.compare.measurement_names import Name

_FIRST = 2
"""Index of the first parameter in `Name.parts`."""


@dataclass(frozen=True)
class Parameter:
    """One parameter, by its name in the ids (`N4096`) or, without a name, by its place."""

    title: str
    named: str = ""
    """Its name in the ids; empty if it goes by its place."""
    place: int = _FIRST
    """Index into `Name.parts`."""

    def of(self, name: Name) -> tuple[int, float] | None:
        """Return the index into `Name.parts` and the value of a test's parameter; None without one."""
        for place, parameter in enumerate(name.parameters, _FIRST):
            number = number_of(parameter)
            if number is not None and (number[0] == self.named if self.named else place == self.place):
                return place, number[1]
        return None


def find_axis(names: Sequence[Name], wanted: str | None = None) -> Parameter:
    """Find the parameter of the axis.

    Args:
        names: Names of the tests.
        wanted: The parameter's name if the ids have names, otherwise its place (`1` for the first);
            None if only one parameter is a number that differs. A name that no id has becomes the title of
            that parameter.

    Raises:
        GpuperfError: No parameter fits, or more than one does.
    """
    if wanted is not None and wanted.isdecimal():
        axis = Parameter(f"parameter {wanted}", place=int(wanted) - 1 + _FIRST)
        if any(axis.of(name) for name in names):
            return axis
        raise GpuperfError(
            f"no test here has a number as its parameter {wanted}",
            expected=", ".join(_described(names)) or "tests with a parameter that is a number",
        )
    prefixes = [
        number[0] for name in names for parameter in name.parameters if (number := number_of(parameter))
    ]
    # `--x n` means N4096 too, unless both exist.
    for named in (wanted, *(prefix for prefix in prefixes if prefix.lower() == (wanted or "").lower())):
        if named and named in prefixes:
            return Parameter(named, named=named)
    found = _candidates(names)
    if len(found) == 1:
        return replace(found[0], title=wanted or found[0].title)
    raise GpuperfError(
        "more than one parameter of these tests is a number"
        if found
        else "no parameter of these tests is a number that differs",
        expected="one" if found else "ids such as 4096, N4096 or 1823x781",
        next_step=f"choose one: {', '.join(_described(names))}" if found else "",
    )


def _candidates(names: Iterable[Name]) -> list[Parameter]:
    """Return each number that differs in a function; place 0 for a named one."""
    values: dict[tuple[str, str, int], set[float]] = {}
    words = set()
    for name in names:
        for place, parameter in enumerate(name.parameters, _FIRST):
            number = number_of(parameter)
            if number is None:
                words.add((name.function, place))
            else:
                key = (name.function, number[0], 0 if number[0] else place)
                values.setdefault(key, set()).add(number[1])
    return list(
        dict.fromkeys(
            Parameter(named or "size", named, place)
            for (function, named, place), found in values.items()
            if len(found) > 1 and (function, place) not in words
        )
    )


def _described(names: Sequence[Name]) -> list[str]:
    """`--x 1 (224, 448)`, `--x N (1024, 4096)`."""
    texts = []
    for axis in _candidates(names):
        values = sorted({found[1] for name in names if (found := axis.of(name)) is not None})
        shown = ", ".join(f"{value:g}" for value in values[:3]) + (", …" if len(values) > 3 else "")
        texts.append(f"--x {axis.named or axis.place - _FIRST + 1} ({shown})")
    return texts
