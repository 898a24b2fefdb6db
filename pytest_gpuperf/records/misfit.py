"""Values of a file that do not fit: their place in words, and the value that is expected there."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator

Place: TypeAlias = tuple[str | int, ...]
"""Keys and indices from the top of a JSON document to a value; a test also by its node id."""

_SHOWN_LENGTH = 60
_GOT = re.compile(r", got .*| - at `.*")
_MISSING = "Object missing required field "


@dataclass(frozen=True)
class Misfit:
    """Value of a file that is impossible."""

    value: object
    place: Place
    expected: str

    def found(self, document: Any = None) -> str:
        """Return `-1 as time.sessions[1].sm_clock_mhz of suites/test_x.py::test_y`."""
        try:
            text = json.dumps(self.value, ensure_ascii=False)
        except TypeError:
            text = str(self.value)
        if len(text) > _SHOWN_LENGTH:
            text = f"{text[:_SHOWN_LENGTH]} …"
        return f"{text} as {describe(self.place, document)}"


def first_misfit(value: Any, kind: Any, *, strict: bool) -> Misfit | None:
    """Find the first value of a JSON document that its type does not allow; None if all fit.

    Args:
        value: The document, or a part of it.
        kind: Type of the record or of the field.
        strict: As for the decoder.
    """
    try:
        msgspec.convert(value, kind, strict=strict)
    except (
        msgspec.ValidationError,
        SystemError,
    ) as error:  # the second: msgspec < 0.22
        for key, part, part_kind in _parts(value, kind):
            inner = first_misfit(part, part_kind, strict=strict)
            if inner is not None:
                return Misfit(inner.value, (key, *inner.place), inner.expected)
        return Misfit(value, (), _expected(kind) or _of_message(str(error)))
    return None


def describe(place: Place, document: Any = None) -> str:
    """Return a place in words: `time.sessions[1].time_us of suites/test_x.py::test_y (backward)`.

    Args:
        place: The place.
        document: The JSON document, to find the node id of a test that `place` has by its index.
    """
    owner = ""
    if place[:1] == ("tests",) and len(place) > 1:
        owner, place = f" of {_nodeid(place[1], document)}", place[2:]
        if place[:1] == ("measurements",) and len(place) > 1:
            owner += "" if place[1] == "main" else f" ({place[1]})"
            place = place[2:]
    steps = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place)
    return (steps.removeprefix(".") or "content") + owner


def _nodeid(test: str | int, document: Any) -> str:
    try:
        return str(test if isinstance(test, str) else document["tests"][test]["nodeid"])
    except (LookupError, TypeError):
        return f"tests[{test}]"


def _parts(value: Any, kind: Any) -> Iterator[tuple[str | int, Any, Any]]:
    """Yield key, value and type of each part of an object or array."""
    for one in _members(kind):
        arguments = get_args(one)
        if isinstance(value, dict) and get_origin(one) is dict:
            yield from ((key, part, arguments[1]) for key, part in value.items())
        elif isinstance(value, dict) and isinstance(one, type) and issubclass(one, msgspec.Struct):
            kinds = {field.encode_name: field.type for field in msgspec.structs.fields(one)}
            yield from ((key, part, kinds[key]) for key, part in value.items() if key in kinds)
        elif isinstance(value, list) and get_origin(one) is tuple:
            kinds_of = arguments[:1] * len(value) if arguments[-1] is Ellipsis else arguments
            yield from ((at, *both) for at, both in enumerate(zip(value, kinds_of, strict=False)))


def _members(kind: Any) -> list[Any]:
    """Return the types that a type allows, without their constraints."""
    origin = get_origin(kind)
    if origin is Annotated:
        return _members(get_args(kind)[0])
    if origin in (Union, UnionType):
        return [one for member in get_args(kind) for one in _members(member)]
    return [kind]


def _expected(kind: Any) -> str:
    """Return the expected value of a type that says so; else an empty text."""
    if get_origin(kind) in (Union, UnionType):
        return " or ".join(filter(None, map(_expected, get_args(kind))))
    if get_origin(kind) is Literal:
        return f"one of {', '.join(map(str, get_args(kind)))}"
    metas = get_args(kind)[1:] if get_origin(kind) is Annotated else ()
    return next((meta.description for meta in metas if meta.description), "")


def _of_message(text: str) -> str:
    """Return the expected value that a message of msgspec names."""
    if text.startswith(_MISSING):
        return f"an object with the key {text.removeprefix(_MISSING)}"
    return _GOT.sub("", text).removeprefix("Expected ")
