"""Picture: axes and marks as plain data, drawn by matplotlib into files and by `picture.js` into pages."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable

Tone: TypeAlias = Literal["", "now", "before", "second", "third", "good", "bad", "quiet"]
"""Meaning of a mark, from which the renderer takes its colour; empty for the next one of a cycle."""

Numbers: TypeAlias = tuple[float, ...]

_STEPS = 400
"""A number on a linear axis is rounded to this part of the range of its list: less than a pixel."""


class _Part(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Part of a picture: a field with its default is left out of the JSON."""


class Axis(_Part, frozen=True):
    """One axis."""

    label: str = ""
    """Quantity and unit in words that people use: `time (µs)`."""
    log: bool = False
    low: float | None = None
    """First value; None to take it from the marks."""
    high: float | None = None
    ticks: Numbers = ()
    """Places of the ticks; empty to choose round numbers."""
    names: tuple[str, ...] = ()
    """Names of the ticks. Without `ticks` they are rows 0, 1, 2 …, the first at the top."""


class Line(_Part, frozen=True, tag="line", tag_field="mark"):
    """Line through points."""

    y: Numbers
    x: Numbers = ()
    """Empty for 1, 2, 3 …"""
    name: str = ""
    """Name in the legend, or next to the line."""
    beside: bool = False
    """True to write the name along the line and not into the legend."""
    tone: Tone = ""
    dashed: bool = False
    dots: bool = False
    """True to mark each point."""
    right: bool = False
    """True to use the right axis."""


class Points(_Part, frozen=True, tag="points", tag_field="mark"):
    """Points, with an interval around each or without."""

    y: Numbers
    x: Numbers = ()
    """Empty for 1, 2, 3 …"""
    low: Numbers = ()
    """Lower ends of the intervals."""
    high: Numbers = ()
    name: str = ""
    tone: Tone = ""
    hollow: bool = False
    tips: tuple[str, ...] = ()
    """Text of each point for a mouse or a screen reader."""
    links: tuple[str, ...] = ()
    """Address of each point: `https://…`, or empty."""


class Bars(_Part, frozen=True, tag="bars", tag_field="mark"):
    """Horizontal bars, each in a row of the y axis."""

    to: Numbers
    start: Numbers = ()
    """Left ends; empty for 0."""
    rows: tuple[int, ...] = ()
    """Row of each bar; empty for 0, 1, 2 …"""
    name: str = ""
    tone: Tone = ""
    tips: tuple[str, ...] = ()


class Band(_Part, frozen=True, tag="band", tag_field="mark"):
    """Area between two values of one axis."""

    low: float
    high: float
    along: Literal["x", "y"] = "y"
    """Axis of the values."""
    name: str = ""
    tone: Tone = "quiet"


class Text(_Part, frozen=True, tag="text", tag_field="mark"):
    """Text at a place."""

    x: float
    y: float
    text: str
    end: bool = False
    """True if the text ends at its place."""


Mark: TypeAlias = Line | Points | Bars | Band | Text


class Picture(_Part, frozen=True):
    """One picture."""

    title: str
    description: str
    """Message of the picture in a sentence or two, for people who do not see it."""
    x: Axis
    y: Axis
    right: Axis | None = None
    marks: tuple[Mark, ...] = ()
    notes: tuple[str, ...] = ()
    """Lines below the picture: sources of values, and values that are missing."""


def rounded(values: Iterable[float]) -> Numbers:
    """Round values of a linear axis to less than a pixel, with at least four digits in the largest."""
    numbers = list(values)
    if not numbers:
        return ()
    span, most = max(numbers) - min(numbers), max(map(abs, numbers))
    step = min(span / _STEPS or most, most / 1e3)
    digits = -math.floor(math.log10(step)) if step > 0 else 0
    return tuple(round(value, digits) + 0.0 for value in numbers)


def four_digits(values: Iterable[float]) -> Numbers:
    """Round values of a logarithmic axis to four digits."""
    return tuple(float(f"{value:.4g}") for value in values)
