"""JSON files, read into typed records with one clear error each."""

from __future__ import annotations

import json
from typing import Any, TypeVar

import msgspec

from pytest_gpuperf.errors import GpuperfError

T = TypeVar("T")


class _Versioned(msgspec.Struct):
    schema: int


def decode_versioned(
    data: bytes, decoder: msgspec.json.Decoder[T], *, schema: int, shown: str, next_step: str
) -> T:
    """Decode one file that carries a `schema` number.

    Args:
        data: The file's bytes.
        decoder: The decoder of version `schema`.
        schema: The newest version that this package reads.
        shown: Name of the file in an error.
        next_step: How to get a file that fits, in an error.

    Raises:
        GpuperfError: Broken JSON (with line and column), a newer schema, a key that occurs twice, or a value
            that does not fit (with its place).
    """
    try:
        # Only this one tells the line of an error; its objects are dropped at once.
        json.loads(data, object_pairs_hook=_refuse_twice, parse_int=float)
        version = msgspec.json.decode(data, type=_Versioned, strict=False).schema
        if version > schema:
            raise GpuperfError(
                f"{shown} was written by a newer pytest-gpuperf (schema {version})",
                expected=f"schema {schema} or older",
                next_step="upgrade: pip install --upgrade pytest-gpuperf",
            )
        return decoder.decode(data)
    except msgspec.ValidationError as error:
        found = f"{shown} has a wrong value{_owner(data, decoder.type)}: {error}"
        raise GpuperfError(found, next_step=next_step) from None
    except json.JSONDecodeError as error:
        what = f"{error.msg} at line {error.lineno}, column {error.colno}"
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        what = str(error)
    raise GpuperfError(
        f"{shown} is not valid JSON: {what}", next_step=f"{next_step} (a merge conflict leaves such a file)"
    )


def _owner(data: bytes, kind: Any) -> str:
    """Return the test of a wrong value, as msgspec names no keys; empty in a file without tests by name."""
    content: Any = msgspec.json.decode(data)
    tests = content.get("tests") if isinstance(content, dict) else None
    kinds = {field.encode_name: field.type for field in msgspec.structs.fields(kind)}
    named = tests if isinstance(tests, dict) else {}
    return next((f" of {name}" for name in named if not _fits({name: named[name]}, kinds["tests"])), "")


def _fits(value: Any, kind: Any) -> bool:
    try:
        msgspec.convert(value, kind)
    except (msgspec.ValidationError, SystemError):  # the second: msgspec < 0.22
        return False
    return True


def _refuse_twice(pairs: list[tuple[str, Any]]) -> None:
    keys = [key for key, _ in pairs]
    if len(set(keys)) < len(keys):
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {twice!r} occurs twice in one object")
