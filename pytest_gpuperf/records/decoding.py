"""JSON files, read into typed records with one clear error each."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.records.misfit import describe, first_misfit

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_gpuperf.records.misfit import Misfit, Place

T = TypeVar("T")

_MAX_DIGITS = 4300
"""Number of digits up to which Python reads a whole number."""


class _Versioned(msgspec.Struct):
    schema: int


class _KeyTwiceError(Exception):
    """A key occurs twice in one object."""


class _Pairs(list[tuple[str, Any]]):
    """Keys and values of a JSON object, with keys that occur twice."""


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
        return _decode(data, decoder, schema, shown, next_step)
    except _KeyTwiceError:
        key, place = _key_twice(json.loads(data, object_pairs_hook=_Pairs)) or ("", ())
        owner = f" in {describe(place, json.loads(data))}" if place else ""
        raise GpuperfError(
            f"{shown} has the key {key!r} twice{owner}",
            expected="each key once (a merge may have kept both sides)",
            next_step=next_step,
        ) from None
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise GpuperfError(
            f"{shown} is not valid JSON: {_where(data, error)}",
            next_step=f"{next_step} (a merge conflict leaves such a file)",
        ) from None


def refuse_first(misfits: Iterable[Misfit], shown: str, next_step: str) -> None:
    """Refuse a file for the first of its values that is impossible.

    Raises:
        GpuperfError: There is one.
    """
    for misfit in misfits:
        raise _error(misfit, None, shown, next_step)


def _decode(data: bytes, decoder: msgspec.json.Decoder[T], schema: int, shown: str, next_step: str) -> T:
    try:
        version = msgspec.json.decode(data, type=_Versioned, strict=False).schema
        if version > schema:
            raise GpuperfError(
                f"{shown} was written by a newer pytest-gpuperf (schema {version})",
                expected=f"schema {schema} or older",
                next_step="upgrade: pip install --upgrade pytest-gpuperf",
            )
        if not _has_no_key_twice(data):
            json.loads(data, object_pairs_hook=_refuse_twice)
        return decoder.decode(data)
    except msgspec.DecodeError as error:
        # Python also reads NaN and Infinity, so that their place can be named.
        document = json.loads(data, parse_int=_number)
        misfit = first_misfit(document, decoder.type, strict=decoder.strict)
        if misfit is not None:
            raise _error(misfit, document, shown, next_step) from None
        if isinstance(error, msgspec.ValidationError):
            raise GpuperfError(f"{shown} has a wrong value: {error}", next_step=next_step) from None
        raise


def _error(misfit: Misfit, document: Any, shown: str, next_step: str) -> GpuperfError:
    found = f"{shown} has {misfit.found(document)}"
    return GpuperfError(found, expected=misfit.expected, next_step=next_step)


def _has_no_key_twice(data: bytes) -> bool:
    """Return True if no object has a key twice; False also if that is not certain.

    A decoder keeps one of two values, so that writing the rest again takes fewer quotation marks.
    """
    if b"\\" in data:
        return False
    try:
        written = msgspec.json.encode(msgspec.json.decode(data))
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return False
    return written.count(b'"') == data.count(b'"')


def _refuse_twice(pairs: list[tuple[str, Any]]) -> None:
    if len(dict(pairs)) < len(pairs):
        raise _KeyTwiceError


def _key_twice(value: Any, place: Place = ()) -> tuple[str, Place] | None:
    """Return the first key that occurs twice, and the place of its object."""
    parts: Iterable[tuple[str | int, Any]] = ()
    if isinstance(value, _Pairs):
        parts = value
        keys = [key for key, _ in value]
        for at, key in enumerate(keys):
            if key in keys[:at]:
                return key, place
    elif isinstance(value, list):
        parts = enumerate(value)
    return next((found for key, part in parts if (found := _key_twice(part, (*place, key)))), None)


def _number(digits: str) -> float:
    return int(digits) if len(digits) <= _MAX_DIGITS else math.inf


def _where(data: bytes, error: Exception) -> str:
    try:
        json.loads(data)
    except json.JSONDecodeError as found:
        return f"{found.msg} at line {found.lineno}, column {found.colno}"
    except (ValueError, RecursionError):
        pass
    return str(error)
