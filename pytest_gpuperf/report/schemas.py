"""JSON schemas from the types that are written: with the docstrings of their fields, and their ranges."""

from __future__ import annotations

import ast
import inspect
import textwrap
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from pytest_gpuperf._version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator

NotFinite: TypeAlias = Literal["null", "words", "never"]
"""The form in which a file has a number that is infinite or NaN."""
DIALECT = "https://json-schema.org/draft/2020-12/schema"
WORDS = ("nan", "inf", "-inf")


def json_schema(kind: Any, *, title: str, not_finite: NotFinite) -> dict[str, Any]:
    """Return the JSON schema of a type.

    Args:
        kind: A record, a typed dictionary, or a list of them.
        title: Name of the schema.
        not_finite: The form of numbers that JSON does not have; those with a range are always finite.
    """
    found = msgspec.json.schema(kind)
    parts: dict[str, Any] = found.get("$defs", {})
    for record in _records_in(kind):
        if record.__name__ in parts:
            _describe(parts[record.__name__], record)
    _allow(found, not_finite)
    return {"$schema": DIALECT, "title": title, "$comment": f"made by pytest-gpuperf {__version__}", **found}


def _records_in(kind: Any) -> Iterator[type]:
    """Yield each class of a type once."""
    seen: set[type] = set()
    waiting = [kind]
    while waiting:
        one = waiting.pop()
        waiting += getattr(one, "__args__", ())
        if isinstance(one, type) and hasattr(one, "__annotations__") and one not in seen:
            seen.add(one)
            yield one
            waiting += _kinds_of(one)


def _kinds_of(record: type) -> list[Any]:
    if issubclass(record, msgspec.Struct):
        return [field.type for field in msgspec.structs.fields(record)]
    return list(inspect.get_annotations(record, eval_str=True).values())


def _describe(part: dict[str, Any], record: type) -> None:
    """Put the docstring of each field before the range of its numbers."""
    for name, text in _docstrings(record).items():
        field = part.get("properties", {}).get(name)
        if field is not None:
            field["description"] = "; ".join(filter(None, (text, field.get("description", ""))))


def _docstrings(record: type) -> dict[str, str]:
    """Return the docstrings that follow the fields of a class and of its bases, on one line each."""
    found: dict[str, str] = {}
    for base in (*getattr(record, "__orig_bases__", ()), *record.__bases__):
        if isinstance(base, type) and base.__module__.startswith("pytest_gpuperf"):
            found |= _docstrings(base)
    tree = ast.parse(textwrap.dedent(inspect.getsource(record))).body[0]
    assert isinstance(tree, ast.ClassDef)
    for field, after in zip(tree.body, tree.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            text = getattr(getattr(after, "value", None), "value", None)
            if isinstance(text, str) and isinstance(after, ast.Expr):
                found[field.target.id] = " ".join(text.split())
    return found


def _allow(part: Any, not_finite: NotFinite) -> None:
    """Allow the forms that infinity and NaN have in a file, for numbers without a range."""
    if isinstance(part, list):
        for one in part:
            _allow(one, not_finite)
        return
    if not isinstance(part, dict):
        return
    for one in part.values():
        _allow(one, not_finite)
    if part.get("type") == "number" and not {"minimum", "maximum"} & part.keys() and not_finite != "never":
        del part["type"]
        other = {"type": "null"} if not_finite == "null" else {"enum": [*WORDS]}
        part["anyOf"] = [{"type": "number"}, other]
