"""Picture: axes and marks as plain data, which `svg_renderer` draws."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Tone: TypeAlias = Literal["", "now", "before", "second", "third", "good", "bad", "quiet"]
"""Meaning of a mark, from which it has its colour; empty for the next one of a cycle."""

Numbers: TypeAlias = tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class Axis:
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
    """Names of the ticks, one for each; empty for their numbers."""


@dataclass(frozen=True, kw_only=True)
class Polyline:
    """Line through points."""

    x: Numbers
    y: Numbers
    name: str = ""
    """Name in the legend, or next to the line."""
    beside: bool = False
    """True to write the name along the line and not into the legend."""
    tone: Tone = ""
    dashed: bool = False
    dots: bool = False
    """True to mark each point."""


@dataclass(frozen=True, kw_only=True)
class Points:
    """Points, with an interval around each or without."""

    x: Numbers
    y: Numbers
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


@dataclass(frozen=True, kw_only=True)
class Band:
    """Area between two places of the x axis."""

    low: float
    high: float
    name: str = ""
    tone: Tone = "quiet"


Mark: TypeAlias = Polyline | Points | Band


@dataclass(frozen=True, kw_only=True)
class Picture:
    """One picture."""

    title: str
    description: str
    """Message of the picture in a sentence or two, for people who do not see it."""
    x: Axis
    y: Axis
    marks: tuple[Mark, ...] = ()
    notes: tuple[str, ...] = ()
    """Lines below the picture: sources of values, and values that are missing."""
