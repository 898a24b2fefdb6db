"""A picture as SVG, in pages and in files. The same picture makes the same text.

Each mark is a group with a colour for files and a class, by which a page sets its own colour.
"""

from __future__ import annotations

import math
import textwrap
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from pytest_gpuperf.features.page.markup import anchor, text
from pytest_gpuperf.features.page.picture import Band, Points, Polyline

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pytest_gpuperf.features.page.picture import Axis, Mark, Picture

COLOURS = {
    "now": "#1f62c4",
    "before": "#838a94",
    "second": "#ad5009",
    "third": "#7a4bb3",
    "good": "#1b7f4b",
    "bad": "#c22f3d",
    "quiet": "#5f6873",
}
"""Colour of each tone on white; `page.css` has those of pages."""
CYCLE = ("now", "second", "third", "good", "bad", "quiet")
"""Tones of marks without one."""
WIDTH, HEIGHT = 560.0, 250.0
"""Size of a picture, and height of its axes, in pixels."""
MARGIN = 6.0
LETTER, LINE = 6.1, 15.0
"""Mean width of a letter of 11 pixels, and height of a line of text."""
_SHAPES = (
    "M-3.2,0a3.2,3.2 0 1,0 6.4,0a3.2,3.2 0 1,0 -6.4,0z",
    "M-3,-3h6v6h-6z",
    "M0,-4.4L4.4,0L0,4.4L-4.4,0z",
    "M0,-4.2L4.2,3.2H-4.2z",
)
"""Outlines of points, which distinguish lines without colours."""


class _Scale(NamedTuple):
    """Axis in pixels."""

    at: Callable[[float], float]
    """Place of a value."""
    ticks: Sequence[tuple[float, str]]


class _Axes(NamedTuple):
    """Both axes, and their box in pixels."""

    x: _Scale
    y: _Scale
    left: float
    top: float
    right: float
    bottom: float


class _Style(NamedTuple):
    """Look of a mark."""

    tone: str
    shape: str


def svg(picture: Picture) -> str:
    """Return a picture with its title, legend and notes as one element."""
    return "".join(_pieces(picture))


def _pieces(picture: Picture) -> Iterator[str]:
    styles = list(_styles(picture.marks))
    legend, top = _legend(picture.marks, styles)
    axes = _axes(picture, top)
    notes = [line for note in picture.notes for line in textwrap.wrap(note, int(WIDTH / LETTER))]
    below = axes.bottom + (40 if picture.x.label else 24)
    size = WIDTH + 2 * MARGIN, below + LINE * len(notes) + 2 * MARGIN
    role = "group" if any(isinstance(mark, Points) and mark.links for mark in picture.marks) else "img"
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="picture" role="{role}" '
        f'viewBox="-{MARGIN:g} -{MARGIN:g} {size[0]:g} {size[1]:g}" '
        f'aria-label="{text(f"{picture.title}. {picture.description}")}" color="#1b2129" fill="currentColor" '
        'font-size="11" font-family="system-ui, sans-serif">'
        f'<rect class="paper" x="-{MARGIN:g}" y="-{MARGIN:g}" width="100%" height="100%" fill="#fff"/>'
    )
    yield _text(0, 12, picture.title, 'font-weight="600"') + legend
    for value, name in axes.x.ticks:
        at = axes.x.at(value)
        yield _grid(f"M{at:.1f},{axes.top:.1f}V{axes.bottom:.1f}")
        yield _text(at, axes.bottom + LINE, name, 'text-anchor="middle"')
    for value, name in axes.y.ticks:
        at = axes.y.at(value)
        yield _grid(f"M{axes.left:.1f},{at:.1f}H{axes.right:.1f}")
        yield _text(axes.left - 6, at + 4, name, 'text-anchor="end"')
    middle = (axes.left + axes.right) / 2, (axes.top + axes.bottom) / 2
    yield _text(middle[0], axes.bottom + 33, picture.x.label, 'text-anchor="middle"')
    turn = f'text-anchor="middle" transform="translate(12,{middle[1]:.1f}) rotate(-90)"'
    yield _text(0, 0, picture.y.label, turn)
    # A nested element cuts off what lies outside of the axes.
    x, y, width, height = axes.left, axes.top, axes.right - axes.left, axes.bottom - axes.top
    yield f'<svg x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" '
    yield f'viewBox="{x:.1f} {y:.1f} {width:.1f} {height:.1f}">'
    for mark, style in zip(picture.marks, styles, strict=True):
        yield _group(style, "".join(_drawn(mark, style, axes)))
    yield "</svg>"
    for number, note in enumerate(notes):
        yield _text(0, below + 9 + LINE * number, note, 'opacity=".8"')
    yield "</svg>"


def _axes(picture: Picture, top: float) -> _Axes:
    bottom = top + HEIGHT
    y = _scale(picture.y, _values(picture.marks, "y"), (bottom, top), 6)
    widest = max((len(name) for _, name in y.ticks), default=1)
    left, right = LETTER * widest + (30 if picture.y.label else 12), WIDTH - 14
    x = _scale(picture.x, _values(picture.marks, "x"), (left, right), max(3, int((right - left) / 64)))
    return _Axes(x, y, left, top, right, bottom)


def _styles(marks: Sequence[Mark]) -> Iterator[_Style]:
    """Yield the look of each mark: its tone, or the next of the cycle."""
    numbers = count()
    for mark in marks:
        number = 0 if mark.tone else next(numbers)
        yield _Style(mark.tone or CYCLE[number % len(CYCLE)], _SHAPES[number % len(_SHAPES)])


def _values(marks: Sequence[Mark], axis: str) -> list[float]:
    """Return the values of all marks on one axis, for its limits."""
    found: list[float] = []
    for mark in marks:
        if isinstance(mark, Band):
            found += (mark.low, mark.high) if axis == "x" else ()
        elif axis == "x":
            found += mark.x
        else:
            found += (*mark.y, *(() if isinstance(mark, Polyline) else (*mark.low, *mark.high)))
    return found


def _scale(axis: Axis, values: Sequence[float], pixels: tuple[float, float], most: int) -> _Scale:
    usable = [value for value in values if math.isfinite(value) and (not axis.log or value > 0)]
    usable = usable or [1.0, 10.0]
    a, b = (_forward(axis, end) for end in (min(usable), max(usable)))
    pad = 0.05 * (b - a) or 0.05 * abs(a) or 0.5
    low = a - pad if axis.low is None else _forward(axis, axis.low)
    high = b + pad if axis.high is None else _forward(axis, axis.high)
    places = axis.ticks or (_log_ticks(low, high, most) if axis.log else _linear_ticks(low, high, most))
    names = axis.names or [f"{tick:.5g}" for tick in places]
    ticks = list(zip(places, names, strict=True))

    def at(value: float) -> float:
        share = (_forward(axis, value) - low) / (high - low)
        return pixels[0] + min(max(share, -10.0), 10.0) * (pixels[1] - pixels[0])

    return _Scale(at, ticks)


def _forward(axis: Axis, value: float) -> float:
    return math.log10(max(value, 1e-300)) if axis.log else value


def _linear_ticks(low: float, high: float, most: int) -> list[float]:
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [float(f"{number * step:.12g}") for number in range(first, last + 1)]


def _log_ticks(low: float, high: float, most: int) -> list[float]:
    decades = range(math.floor(low), math.ceil(high) + 1)
    for factors in ((1, 2, 5), (1, 3), (1,)):
        ticks = [float(f"{factor}e{power}") for power in decades for factor in factors]
        inside = [tick for tick in ticks if low <= math.log10(tick) <= high]
        if len(inside) <= most:
            return inside
    return inside[:: math.ceil(len(inside) / most)]


def _legend(marks: Sequence[Mark], styles: Sequence[_Style]) -> tuple[str, float]:
    """Return the names of marks with samples, in lines, and the top of the axes below them."""
    pieces, left, line = [], 0.0, 1
    for mark, style in zip(marks, styles, strict=True):
        if not mark.name or (isinstance(mark, Polyline) and mark.beside):
            continue
        width = 30 + LETTER * len(mark.name) + 12
        if left and left + width > WIDTH:
            left, line = 0.0, line + 1
        y = 8 + LINE * line
        if isinstance(mark, Band):
            sample = _rectangle(left + 2, y - 5, 18, 10, mark.name)
        else:
            sample = _path(f"M{left:g},{y:g}h22", mark) if isinstance(mark, Polyline) else ""
            if isinstance(mark, Points) or mark.dots:
                sample += _dot(left + 11, y, style, hollow=isinstance(mark, Points) and mark.hollow)
        pieces.append(_group(style, sample) + _text(left + 27, y + 4, mark.name))
        left += width
    return "".join(pieces), 12 + LINE * line + (8 if pieces else -10)


def _drawn(mark: Mark, style: _Style, axes: _Axes) -> Iterator[str]:
    """Yield the parts of a mark."""
    x, y = axes.x.at, axes.y.at
    if isinstance(mark, Polyline):
        places = list(zip(map(x, mark.x), map(y, mark.y), strict=True))
        yield _path("M" + "L".join(f"{a:.1f},{b:.1f}" for a, b in places), mark)
        if mark.dots:
            values = zip(places, mark.x, mark.y, strict=True)
            yield from (_dot(*place, style, tip=f"{mark.name} {a:.5g}: {b:.5g}") for place, a, b in values)
        if mark.beside:
            yield _name_beside(mark.name, places[0], places[-1], axes)
    elif isinstance(mark, Points):
        for index, (a, b) in enumerate(zip(mark.x, mark.y, strict=True)):
            if mark.low:
                d = f"M{x(a):.1f},{y(mark.low[index]):.1f}V{y(mark.high[index]):.1f}"
                yield f'<path stroke="currentColor" stroke-width="1.6" d="{d}"/>'
            tip = mark.tips[index] if mark.tips else f"{a:.5g}: {b:.5g}"
            dot = _dot(x(a), y(b), style, hollow=mark.hollow, tip=tip)
            yield anchor(mark.links[index], dot, tip) if mark.links else dot
    else:
        left, right = x(mark.low), x(mark.high)
        yield _rectangle(left, axes.top, right - left, axes.bottom - axes.top, mark.name)


def _name_beside(name: str, start: tuple[float, float], end: tuple[float, float], axes: _Axes) -> str:
    """Write the name along a line: at the end of a level one, at the start of a slope."""
    (x0, y0), (x1, y1) = start, end
    slope = (y1 - y0) / (x1 - x0 or 1.0)
    level = abs(slope) < 0.02
    entry = max(x0, axes.left, x0 + (axes.bottom - y0) / slope if slope < 0 else x0) + 8
    at = min(x1, axes.right) - 4 if level else entry
    turn = "" if level else f" rotate({math.degrees(math.atan(slope)):.1f})"
    place = f"translate({at:.1f},{y0 + slope * (at - x0):.1f}){turn} translate(0,-4)"
    return _text(0, 0, name, f'transform="{place}" text-anchor="{"end" if level else "start"}"')


def _group(style: _Style, content: str) -> str:
    return f'<g class="{style.tone}" color="{COLOURS[style.tone]}" fill="currentColor">{content}</g>'


def _grid(d: str) -> str:
    return f'<path d="{d}" stroke="currentColor" opacity=".15"/>'


def _path(d: str, mark: Polyline) -> str:
    dash = ' stroke-dasharray="5 3"' * mark.dashed
    return f'<path d="{d}" fill="none" stroke="currentColor" stroke-width="1.6"{dash}/>'


def _dot(x: float, y: float, style: _Style, *, hollow: bool = False, tip: str = "") -> str:
    kind = 'class="dot hollow" fill="#fff"' if hollow else 'class="dot"'
    title = f"<title>{text(tip)}</title>" if tip else ""
    place = f'transform="translate({x:.1f},{y:.1f})"'
    return f'<path {kind} d="{style.shape}" {place} stroke="currentColor" stroke-width="1.2">{title}</path>'


def _rectangle(x: float, y: float, width: float, height: float, tip: str) -> str:
    box = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
    return f'<rect {box} opacity=".16"><title>{text(tip)}</title></rect>'


def _text(x: float, y: float, shown: str, attributes: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" {attributes}>{text(shown)}</text>' if shown else ""
