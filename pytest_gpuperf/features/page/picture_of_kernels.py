"""Pictures of counters: reasons why warps wait, and occupancy with its limits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gpuperf.features.page.picture import Axis, Bars, Mark, Picture
from pytest_gpuperf.metrics import METRICS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_gpuperf.records import MetricValue

MOST_STALLS = 8
LEAST_STALL = 1.0
"""Share of all warp cycles, in %, below which a reason is left out."""
_COMMON = "share of all warp cycles spent "
_LIMITS: Mapping[str, str] = {
    "warps": "warps",
    "blocks": "block slots",
    "registers": "registers",
    "shared_mem": "shared memory",
    "barriers": "barriers",
}


def stalls(now: Mapping[str, MetricValue], before: Mapping[str, MetricValue]) -> Picture | None:
    """Draw the reasons for which warps wait, now and before.

    Args:
        now: Counters by short name.
        before: Counters of the baseline, read in the same way; empty without any.

    Returns:
        None if no reason was measured.
    """
    shares = {name: max(_number(now, name), _number(before, name)) for name in now if _is_stall(name)}
    names = sorted(
        (name for name, share in shares.items() if share >= LEAST_STALL),
        key=shares.__getitem__,
    )
    names = names[: -MOST_STALLS - 1 : -1]
    if not names:
        return None
    top = max(names, key=lambda name: _number(now, name))
    return Picture(
        title="Reasons why warps wait",
        description=f"The first is {_words(top)} with {_number(now, top):.0f} % of all warp cycles.",
        x=Axis(label="share of all warp cycles (%)", low=0.0),
        y=Axis(names=tuple(map(_words, names))),
        marks=_now_and_before(
            [(_number(now, n), _number(before, n)) for n in names],
            compared=bool(before),
            tips=[METRICS[name].explanation.removeprefix(_COMMON) for name in names],
        ),
    )


def occupancy(
    now: Mapping[str, MetricValue], before: Mapping[str, MetricValue], *, alike: bool
) -> Picture | None:
    """Draw the achieved and theoretical occupancy, and the occupancy that each resource allows.

    A resource that allows `n` blocks on an SM, while the limiter allows `m`, allows `n / m` of the
    theoretical occupancy.

    Args:
        now: Counters by short name.
        before: Counters of the baseline, read in the same way; empty without any.
        alike: False if the limits of the launches differ: the theoretical occupancy is then the least.

    Returns:
        None if the theoretical occupancy is not known.
    """
    if not _number(now, "theoretical_occupancy"):
        return None
    theoretical = "theoretical" if alike else "theoretical, least"
    rows = {"achieved": "achieved_occupancy", theoretical: "theoretical_occupancy"}
    values = {title: (_number(now, name), _number(before, name)) for title, name in rows.items()}
    values = {title: pair for title, pair in values.items() if any(pair)}
    limiter = now.get("occupancy_limiter")
    if alike:
        for name, words in _LIMITS.items():
            pair = (_allowed(now, name), _allowed(before, name))
            if name == limiter:
                values[f"{words} (limiter)"] = pair
            elif 0 < min(filter(None, pair), default=0.0) < 100:
                values[f"limit of {words}"] = pair
    known = f", limited by {_LIMITS[limiter]}" if isinstance(limiter, str) and limiter in _LIMITS else ""
    said = ", ".join(f"{title} {values[title][0]:.0f} %" for title in rows if title in values)
    return Picture(
        title="Occupancy",
        description=f"{said[0].upper()}{said[1:]}{known}.",
        x=Axis(label="warps, of the most that an SM holds (%)", low=0.0, high=100.0),
        y=Axis(names=tuple(values)),
        marks=_now_and_before(list(values.values()), compared=bool(before)),
    )


def _allowed(metrics: Mapping[str, MetricValue], resource: str) -> float:
    limits = {name: _number(metrics, f"occupancy_limit.{name}") for name in _LIMITS}
    least = min((limit for limit in limits.values() if limit), default=0.0)
    if not least:
        return 0.0
    return min(100.0, _number(metrics, "theoretical_occupancy") * limits[resource] / least)


def _now_and_before(
    pairs: Sequence[tuple[float, float]], *, compared: bool, tips: Sequence[str] = ()
) -> tuple[Mark, ...]:
    """Return a bar for each row, and one for each known value of the baseline."""
    now, old = ([round(value, 1) for value in side] for side in zip(*pairs, strict=True))
    known = tuple(row for row, value in enumerate(old) if value)
    both = compared and bool(known)
    said = tuple(f"{value:g} %: {tip}" for value, tip in zip(now, tips, strict=True)) if tips else ()
    marks = [Bars(to=tuple(now), name="now" if both else "", tone="now", tips=said)]
    if both:
        rows = () if len(known) == len(old) else known
        marks.append(Bars(to=tuple(old[row] for row in known), rows=rows, name="before", tone="before"))
    return tuple(marks)


def _is_stall(name: str) -> bool:
    return name.startswith("stall.") and name in METRICS


def _words(name: str) -> str:
    return name.partition(".")[2].replace("_", " ")


def _number(metrics: Mapping[str, MetricValue], name: str) -> float:
    value = metrics.get(name, 0.0)
    return 0.0 if isinstance(value, str) else float(value)
