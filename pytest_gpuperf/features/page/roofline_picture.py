"""Roofline of a call: operations per second over operations per byte of DRAM, L2 and L1.

The formulas are those of ncu's hierarchical roofline sections: work and traffic of the call by counters, over
its time under the profiler; ceilings are what each unit can do in a cycle, at the clock of that time. The
counters are those of the preset `roofline`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_gpuperf.features.page.picture import Axis, Picture, Points, Polyline, Tone
from pytest_gpuperf.report.number_format import number_in, three_digits

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_gpuperf.records import MetricValue

_TYPES: Mapping[str, str] = {
    "fp64": "float64",
    "fp32": "float32",
    "fp16": "float16",
    "tensor_fp64": "float64 tensor",
    "tensor_tf32": "TF32 tensor",
    "tensor_bf16": "bfloat16 tensor",
    "tensor_fp16": "float16 tensor",
    "tensor_fp8": "float8 tensor",
    "tensor_int8": "int8 tensor",
}
"""Types of operations by the ends of `flops.…` and `ceiling.…`."""
_TONES: Mapping[str, Tone] = {"DRAM": "now", "L2": "second", "L1": "third"}
_USED = 0.01
"""Share of the operations from which a type is in use."""
_ROOM = 4.0
"""Factor between the outermost point and the edge."""


_HEADROOM = 1.8
"""Factor between the highest line and the upper edge: its name stands above it."""


@dataclass(frozen=True)
class CallWork:
    """Operations and traffic of one call."""

    operations: float
    time_us: float
    bytes: Mapping[str, float]
    """By level of memory: DRAM, L2, L1."""
    types: Mapping[str, float]
    """Operations by type."""

    @property
    def tflop_per_s(self) -> float:
        """Rate in 10¹² operations per second."""
        return self.operations / self.time_us / 1e6

    def intensity(self, level: str) -> float:
        """Return the operations per byte of a level."""
        return self.operations / self.bytes[level]


@dataclass(frozen=True)
class Roofs:
    """Ceilings of one GPU at one clock."""

    memory: Mapping[str, float]
    """In 10⁹ bytes per second, by level."""
    compute: Mapping[str, float]
    """In 10¹² operations per second, by type."""


def roofline(now: Mapping[str, MetricValue], before: Mapping[str, MetricValue]) -> Picture | None:
    """Draw the roofline of a call.

    Args:
        now: Counters of the call by short name.
        before: Counters of the baseline, read in the same way; empty without any.

    Returns:
        None if operations, bytes or all roofs of memory were not measured.
    """
    work, old, roofs = _counted(now), _counted(before), _roofs(now)
    if work is None:
        return None
    levels = [level for level in _TONES if level in work.bytes and level in roofs.memory]
    if not levels:
        return None
    points = [_point(work, level, roofs) for level in levels]
    if old is not None:
        points += [_point(old, level, roofs, old=True) for level in levels if level in old.bytes]
    lines = _lines(work, roofs, [point.x[0] for point in points])
    rates = [point.y[0] for point in points]
    lowest = min([*rates, *(top / _ROOM for top in roofs.compute.values())])
    highest = max([*rates, *(y for line in lines for y in line.y)])
    shares = ", ".join(f"{_share(work, level, roofs):.0f} % of the {level} roof" for level in levels)
    return Picture(
        title="Roofline",
        description=f"The call makes {three_digits(work.tflop_per_s)} TFLOP/s: {shares}.",
        x=Axis(label="operations per byte", log=True),
        y=Axis(label="TFLOP/s", log=True, low=lowest / _ROOM, high=_HEADROOM * highest),
        marks=(*lines, *points),
        notes=("Ceilings by ncu's .peak_sustained, at the clocks of the profiled call.",),
    )


def _counted(metrics: Mapping[str, MetricValue]) -> CallWork | None:
    """Return the work by counters."""
    types = {name: _number(metrics, f"flops.{name}") for name in _TYPES}
    operations = sum(types.values())
    sources = {"DRAM": "dram_bytes", "L2": "l2_sent_bytes", "L1": "l1_writeback_bytes"}
    moved = {level: _number(metrics, name) for level, name in sources.items()}
    time_us = _number(metrics, "duration_us")
    if not operations or not time_us or not any(moved.values()):
        return None
    return CallWork(operations, time_us, {level: found for level, found in moved.items() if found}, types)


def _roofs(metrics: Mapping[str, MetricValue]) -> Roofs:
    names = {"DRAM": "ceiling.dram", "L2": "ceiling.l2", "L1": "ceiling.l1"}
    return Roofs(
        {level: found for level, name in names.items() if (found := _number(metrics, name))},
        {name: found for name in _TYPES if (found := _number(metrics, f"ceiling.{name}"))},
    )


def _lines(work: CallWork, roofs: Roofs, places: Sequence[float]) -> list[Polyline]:
    """Return the roofs of memory up to the highest ceiling, and each ceiling from where memory meets it."""
    # Types with one ceiling have one line.
    alike: dict[str, list[str]] = {}
    for name, top in roofs.compute.items():
        alike.setdefault(f"{top:.3g}", []).append(name)
    tops, fastest = roofs.compute.values(), max(roofs.memory.values())
    meets = {level: max(tops, default=0.0) * 1e3 / rate for level, rate in roofs.memory.items()}
    left = min([min(places) / _ROOM, *(top * 1e3 / fastest / _ROOM for top in tops)])
    right = _ROOM * max(*places, *meets.values())
    lines = []
    for level, rate in roofs.memory.items():
        ends = (left, meets[level] or right)
        shown = f"{three_digits(rate / 1e3)} TB/s" if rate >= 1e3 else f"{three_digits(rate)} GB/s"
        y = tuple(end * rate / 1e3 for end in ends)
        lines.append(Polyline(x=ends, y=y, name=f"{level} {shown}", beside=True, tone=_TONES[level]))
    for types in alike.values():
        top = roofs.compute[types[0]]
        used = any(work.types.get(name, 0.0) > _USED * work.operations for name in types)
        x = (top * 1e3 / fastest, right)
        shown = f"{_in_words(types)} {three_digits(top)}"
        lines.append(Polyline(x=x, y=(top, top), name=shown, beside=True, tone="quiet", dashed=not used))
    return lines


def _in_words(names: Sequence[str]) -> str:
    """Return `float16, bfloat16 tensor` for types with one ceiling."""
    plain = [_TYPES[name] for name in names if not name.startswith("tensor_")]
    tensor = [_TYPES[name].removesuffix(" tensor") for name in names if name.startswith("tensor_")]
    return ", ".join([*plain, *([f"{', '.join(tensor)} tensor"] if tensor else [])])


def _point(work: CallWork, level: str, roofs: Roofs, *, old: bool = False) -> Points:
    x, y, share = work.intensity(level), work.tflop_per_s, _share(work, level, roofs)
    return Points(
        x=(x,),
        y=(y,),
        name=f"{level} before" if old else f"{level}, {share:.0f} % of its roof",
        tone=_TONES[level],
        hollow=old,
        tips=(f"{level}: {x:.4g} operations per byte, {y:.4g} TFLOP/s, {share:.0f} % of its roof",),
    )


def _share(work: CallWork, level: str, roofs: Roofs) -> float:
    """Return the rate, in %, of the most that a roof and the ceiling of the most frequent type allow."""
    limit = work.intensity(level) * roofs.memory[level] / 1e3
    known = [name for name in roofs.compute if work.types.get(name)]
    if known:
        limit = min(limit, roofs.compute[max(known, key=lambda name: work.types.get(name, 0.0))])
    return 100 * work.tflop_per_s / limit


def _number(metrics: Mapping[str, MetricValue], name: str) -> float:
    return number_in(metrics, name) or 0.0
