"""A run without and with a change, by size: times, launches, and the cost of a launch."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Literal, NamedTuple

from pytest_gpuperf.compare.axis import find_axis
from pytest_gpuperf.compare.break_even import BreakEven, break_even
from pytest_gpuperf.compare.names import Name, pair_names, told_apart, varying
from pytest_gpuperf.compare.values import trace_values, why_not_compared
from pytest_gpuperf.errors import GpuperfError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pytest_gpuperf.compare.choosing import Choice, Entry

Kind = Literal["host", "graph", "given"]
"""Cost of a launch: the host's, that of a node inside a CUDA graph, or a given number."""
_NODES_A_GRAPH = 2
"""Kernels per launch of the host from which a call counts as a CUDA graph; without a graph it is 1."""


class LaunchCost(NamedTuple):
    """The cost of one launch."""

    us: float
    kind: Kind
    source: str
    """The calculation, for the reader."""
    of_nodes: bool
    """True if it is the cost of each node of a graph; otherwise of each launch by the host."""


@dataclass(frozen=True)
class Pair:
    """One size without the change and with it."""

    size: float
    without: Entry
    with_: Entry
    launches: tuple[float, float]
    """Of a call, without and with: those of the host, or the nodes of a graph, as the cost is."""
    gpu_us: tuple[float, float]
    """Sum of the durations of a call's kernels, copies and fills, without and with, in microseconds."""
    measured_us: float | None
    """Measured time without less time with; None if one was not timed, or if the modes differ."""


@dataclass(frozen=True)
class Series:
    """The sizes of one family of tests, which differ only in the size."""

    name: str
    """The parts of the name that differ from other series; empty for the only one."""
    pairs: tuple[Pair, ...]
    """Sorted by size."""
    mode: str
    """Mode of its times; empty if they are not compared."""
    calculated: BreakEven
    """Break-even from GPU time, launches and their cost."""
    measured: BreakEven | None
    """Break-even from the measured times alone, which include the cost of launches."""


@dataclass(frozen=True)
class Found:
    """Savings and costs of a change, family by family."""

    size_title: str
    cost: LaunchCost
    series: tuple[Series, ...]
    left_out: tuple[str, ...]
    """Reasons for missing sizes: the unknown value and its test."""


def find(without: Choice, with_: Choice, *, x: str | None = None, launch: str | None = None) -> Found:
    """Pair measurements without and with a change, and calculate the break-even.

    Args:
        without: Measurements without the change, one for each size.
        with_: Measurements with the change; their names differ in one part only.
        x: The parameter that is the size; see `axis.find_axis`.
        launch: The cost of a launch: `host`, `graph` or microseconds; None for `host` if the times are host
            times and not all calls are CUDA graphs, otherwise `graph`. By the same rule, microseconds are for
            each launch by the host or for each node of a graph.

    Raises:
        GpuperfError: The names do not belong together, or launches, times or their cost are unknown.
    """
    entries = [
        (without.entries[row[0]], with_.entries[row[1]])
        for row in _paired(without, with_)
        if row.keys() == {0, 1}
    ]
    axis = find_axis([old.name for old, _ in entries], x)
    sized = [(found, old, new) for old, new in entries if (found := axis.of(old.name)) is not None]
    cost = _cost([entry for _, *both in sized for entry in both if not entry.failed], launch)
    families: dict[tuple[str, ...], list[Pair]] = {}
    unknown: list[GpuperfError] = []
    for (place, size), old, new in sized:
        rest = tuple("" if index == place else part for index, part in enumerate(old.name.parts))
        try:
            families.setdefault(rest, []).append(_pair(size, old, new, cost))
        except GpuperfError as error:
            unknown.append(error)
    families = {rest: pairs for rest, pairs in families.items() if pairs}
    if not families:
        raise unknown[0]
    names = [Name.of_parts(rest) for rest in families]
    series = [
        _series(name, pairs, cost)
        for name, pairs in zip(told_apart(names, varying(names)), families.values(), strict=True)
    ]
    title = "size" if x is not None and x.isdecimal() else axis.title
    return Found(title, cost, tuple(series), tuple(error.found for error in unknown))


def _paired(without: Choice, with_: Choice) -> Iterable[Mapping[int, int]]:
    pairing = pair_names([[entry.name for entry in choice.entries] for choice in (without, with_)])
    if pairing is None:
        raise GpuperfError(
            f"the tests of {without.ref!r} and {with_.ref!r} do not belong together",
            expected="names that differ in one part: the function, the label, or one parameter",
        )
    return pairing.rows


def _pair(size: float, old: Entry, new: Entry, cost: LaunchCost) -> Pair:
    for entry in (old, new):
        if entry.failed:
            raise GpuperfError(f"{entry.shown} failed or had a wrong result")
    times = [entry.measurement.timing for entry in (old, new)]
    measured = None
    if times[0] and times[1] and not why_not_compared("time_us", old.measurement, new.measurement):
        measured = times[0].time_us - times[1].time_us
    return Pair(
        size,
        old,
        new,
        (_launches(old, cost), _launches(new, cost)),
        (_gpu_us(old, cost.kind), _gpu_us(new, cost.kind)),
        measured,
    )


def _series(name: str, pairs: list[Pair], cost: LaunchCost) -> Series:
    pairs = sorted(pairs, key=lambda pair: pair.size)
    sizes = [pair.size for pair in pairs]
    calculated = break_even(
        sizes,
        [pair.gpu_us[0] - pair.gpu_us[1] for pair in pairs],
        [pair.launches[1] - pair.launches[0] for pair in pairs],
        cost.us,
    )
    modes = {timing.mode for pair in pairs if (timing := pair.without.measurement.timing)}
    measured_us = [pair.measured_us for pair in pairs if pair.measured_us is not None]
    measured = None
    if len(measured_us) == len(pairs) and len(modes) == 1:
        measured = break_even(sizes, measured_us, 0, 0.0)
    return Series(name, tuple(pairs), modes.pop() if measured else "", calculated, measured)


def _launches(entry: Entry, cost: LaunchCost) -> float:
    found = _known_launches(entry, of_nodes=cost.of_nodes)
    if found is None:
        raise GpuperfError(
            f"the launches of {entry.shown} are not known",
            next_step="call gpuperf.trace() in the test, or profile() with all kernels, and measure again",
        )
    return found


def _known_launches(entry: Entry, *, of_nodes: bool) -> float | None:
    values = trace_values(entry.measurement)
    # The host launches a whole graph with one call.
    if values:
        return values["launches"] if of_nodes else values["host_launches"] or values["launches"]
    profile = entry.measurement.profile
    if profile is None or profile.unavailable or profile.regex or profile.launches:
        return None
    return float(len(profile.kernels)) or None


def _is_graph(entry: Entry) -> bool:
    """Return True if most kernels of a call are nodes of CUDA graphs."""
    values = trace_values(entry.measurement)
    return bool(values) and 0 < values["host_launches"] <= values["launches"] / _NODES_A_GRAPH


def _gpu_us(entry: Entry, kind: Kind) -> float:
    values = trace_values(entry.measurement)
    if values:
        return values["gpu_time_us"]
    timing = entry.measurement.timing
    recorded = timing.by("cupti") if timing else None
    if recorded is not None:
        return recorded.time_us
    # A time from events includes the gaps between the nodes of a graph already.
    if timing is not None and timing.mode != "host" and kind != "graph":
        return timing.time_us
    raise GpuperfError(
        f"the GPU time of {entry.shown} is not known",
        next_step="call gpuperf.trace() in the test and measure again",
    )


def _cost(entries: Sequence[Entry], launch: str | None) -> LaunchCost:
    modes = {timing.mode for entry in entries if (timing := entry.measurement.timing)}
    of_nodes = modes != {"host"} or all(map(_is_graph, entries))
    if launch is None:
        launch = "graph" if of_nodes else "host"
    if launch == "host":
        return _cost_on_the_host(entries)
    if launch == "graph":
        return _cost_in_a_graph(entries)
    try:
        given = float(launch)
    except ValueError:
        raise GpuperfError(
            f"the cost of a launch is given as {launch!r}", expected="host, graph or microseconds"
        ) from None
    return LaunchCost(given, "given", "as given", of_nodes)


def _cost_on_the_host(entries: Iterable[Entry]) -> LaunchCost:
    """Return the least host time per launch: the exact cost if the GPU waits, otherwise an upper bound.

    The time of a graph depends on its nodes, not on its launch.
    """
    found = [
        (timing.time_us / launches, entry.shown)
        for entry in entries
        if (timing := entry.measurement.timing) and timing.mode == "host" and not _is_graph(entry)
        if (launches := _known_launches(entry, of_nodes=False))
    ]
    if not found:
        raise GpuperfError(
            "the host's cost of a launch is not known: no test here has a host time and its launches, "
            "kernel by kernel",
            next_step="time with mode='host' and call gpuperf.trace(), or give --launch=MICROSECONDS",
        )
    cost, shown = min(found)
    return LaunchCost(cost, "host", f"the least host time per launch, from {shown}", of_nodes=False)


def _cost_in_a_graph(entries: Sequence[Entry]) -> LaunchCost:
    traced = [trace_values(entry.measurement)["launch_gap"] for entry in entries if _is_graph(entry)]
    if traced:
        source = "the idle time between nodes in the traced graphs"
        return LaunchCost(median(traced), "graph", source, of_nodes=True)
    gaps = [
        timing.launch_gap_us
        for entry in entries
        if (timing := entry.measurement.timing) and timing.launch_gap_us > 0
    ]
    if not gaps:
        raise GpuperfError(
            "the cost of a launch inside a graph is not known: no time here has a launch gap",
            next_step="time with mode='hot' and Triton installed, trace the call as a CUDA graph, or "
            "give --launch=MICROSECONDS",
        )
    source = "an empty kernel inside a graph, an upper bound for a node"
    return LaunchCost(median(gaps), "graph", source, of_nodes=True)
