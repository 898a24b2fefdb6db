"""Results of the zoo, and their tables."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Literal, TypeAlias

from benchmarks import results_file
from benchmarks.markdown import provenance, table, us
from pytest_gpuperf.records import Environment, Record, TimingMode, TimingSource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

SCHEMA = 1
NEAR_PCT, NEAR_US = 2.0, 0.3
"""Difference from the reference up to which a time is right: the larger of the two."""
GOAL_PCT = 90.0
"""Least share of right times."""
MOST_GAP_US = 2.0
"""Largest time between two kernels of a call on one stream; more is another reason."""

Fate: TypeAlias = Literal["timed", "checked", "refused", "crashed", "broken", "other mode"]
"""`crashed`: another exception than `GpuperfError`, or the end of the process. `broken`: the callable raises
one by itself as well. `other mode`: the mode asked for cannot time the callable, and says so."""
Run: TypeAlias = Literal["first", "again", "alone"]
"""`alone`: in a fresh process."""


class Tried(Record, frozen=True, kw_only=True):
    """One callable, checked or timed in one mode."""

    name: str
    kind: str
    asked: str
    """Mode that was asked for; `check` for the comparison with its reference."""
    run: Run = "first"
    environment: str = ""
    """Name of the environment of the process; empty for the usual one."""
    fate: Fate
    message: str = ""
    """Beginning of the message of an exception."""
    doubt: str = ""
    """Reasons why the time may be too short; not empty if it comes with a warning."""
    not_verified: str = ""
    """Reason why outputs of timed calls could not be verified."""
    mode: TimingMode | None = None
    """Mode of the time."""
    source: TimingSource | None = None
    time_us: float = 0.0
    spread_pct: float = 0.0
    """Interquartile range of the blocks."""
    held_back: bool = False
    """True if the power limit or heat held the clock back."""
    busy_us: float | None = None
    """Union of the record intervals of a single call; None if not recorded."""
    launches: float = 0.0
    """Kernels, fills and copies of a call."""
    gap_us: float = 0.0
    """Measured gap for each launch, if the time includes the gaps; else 0."""
    seconds: float = 0.0
    """Wall time."""
    verification_s: float = 0.0
    """Part of it that the replay of timed calls takes."""
    unseen_ratio: float = 0.0
    """Time on unseen values over that on seen ones; 0 if it was not measured."""
    single_us: float = 0.0
    """Time of a call by itself; 0 if it was not measured."""

    @property
    def reference_us(self) -> float | None:
        """Record intervals and launch gaps of a single call."""
        return None if self.busy_us is None else self.busy_us + self.launches * self.gap_us

    @property
    def is_within(self) -> bool:
        """True if the time is near its reference."""
        expected = self.reference_us
        return expected is not None and is_near(self.time_us, expected)

    @property
    def why(self) -> str:
        """Likely reason why the time is not near its reference."""
        expected = self.reference_us
        if expected is None or self.busy_us is None:
            return "no records of single calls"
        if self.held_back:
            return "the power limit held the clock back, and not in single calls"
        if self.spread_pct > NEAR_PCT:
            return "the blocks of the time spread by more than the tolerance"
        if self.time_us < self.busy_us:
            return "shorter than the records: kernels overlap, or CUPTI lengthens them"
        if self.source == "events" and self.launches > 1:
            if self.time_us < expected:
                return "shorter gaps between several kernels than the measured one"
            if self.time_us < self.busy_us + self.launches * MOST_GAP_US:
                return "longer gaps between several kernels than the measured one"
        return "not known"


def run_of(name: str, run: Run, environment: str) -> str:
    """Name the run of a callable: in the usual process only the callable, which is also timed again there."""
    return ", ".join(filter(None, (name, run if run == "alone" else "", environment)))


def is_near(time_us: float, expected_us: float) -> bool:
    """Return True if a time is within 2 % or 0.3 µs of another one."""
    return abs(time_us - expected_us) <= max(NEAR_PCT / 100 * expected_us, NEAR_US)


class Results(Record, frozen=True, kw_only=True):
    """Results of one run of the zoo."""

    schema: int
    date: str
    """UTC, ISO 8601."""
    environment: Environment
    tried: tuple[Tried, ...] = ()
    absent: dict[str, str] = {}
    """Why callables could not be made, by name."""
    not_run: tuple[str, ...] = ()
    """Runs for which no time was left, as `run_of` names them."""


def read(paths: Sequence[Path]) -> Results:
    """Read the files of one run or of its shards.

    Raises:
        SystemExit: They are of several models of GPU, versions of torch, or commits.
    """
    parts = [results_file.read(path, Results, schema=SCHEMA) for path in paths]
    results_file.refuse_several_machines(one.environment for one in parts)
    if len({one.environment.commit for one in parts}) > 1:
        raise SystemExit("found files of several commits; expected shards of one run")
    tried = tuple(one for part in parts for one in part.tried)
    present = {one.name for one in tried}
    absent = {name: why for part in parts for name, why in part.absent.items()}
    return Results(
        schema=SCHEMA,
        date=parts[0].date,
        environment=parts[0].environment,
        tried=tried,
        absent={name: why for name, why in absent.items() if name not in present},
        not_run=tuple(_left(parts)),
    )


def _left(parts: Sequence[Results]) -> Iterator[str]:
    """Yield the runs that no other file has, either."""
    for part in parts:
        others = [one for other in parts if other is not part for one in other.tried]
        elsewhere = {run_of(one.name, one.run, one.environment) for one in others}
        yield from (name for name in part.not_run if name not in elsewhere)


def _timed(tried: Iterable[Tried]) -> list[Tried]:
    return [one for one in tried if one.fate == "timed"]


def _count(tried: Iterable[Tried], *fates: Fate) -> int:
    return sum(one.fate in fates for one in tried)


def _usual(results: Results) -> list[Tried]:
    return [one for one in results.tried if one.run == "first" and not one.environment]


def within_pct(tried: Sequence[Tried]) -> float:
    """Return the share of times near their references, in %; 0 without times."""
    timed = _timed(tried)
    return 100 * sum(one.is_within for one in timed) / len(timed) if timed else 0.0


def passes(results: Results) -> bool:
    """Return True if nothing is refused or crashed, and enough times are right."""
    return not _count(results.tried, "refused", "crashed") and within_pct(_usual(results)) >= GOAL_PCT


def summary(results: Results) -> str:
    """Return the counts in a sentence each, and the machine."""
    usual = _usual(results)
    timed = _timed(usual)
    doubted = sum(bool(one.doubt) for one in timed)
    lines = [
        f"{len({one.name for one in usual})} callables of {len({one.kind for one in usual})} kinds: "
        f"{_count(results.tried, 'refused')} refused, {_count(results.tried, 'crashed')} crashed; "
        f"{len(timed)} times, {doubted} of them doubted.",
        f"{within_pct(usual):.1f} % of the times are within {NEAR_PCT:g} % or {NEAR_US:g} µs of the record "
        "intervals of single calls and launch gaps.",
    ]
    if seconds := sum(one.seconds for one in timed):
        pct = 100 * sum(one.verification_s for one in timed) / seconds
        lines.append(f"Replays of timed calls take {pct:.1f} % of the wall time of these timings.")
    for run, words in (("again", "once more in the same process"), ("alone", "alone in a fresh process")):
        pairs = [*_repeated(results, run)]
        same = sum(is_near(second.time_us, first.time_us) for first, second in pairs)
        if pairs:
            lines.append(f"{same} of {len(pairs)} times are the same {words}.")
    if others := [one for one in results.tried if one.environment]:
        names = ", ".join(dict.fromkeys(one.environment for one in others))
        refused, crashed = _count(others, "refused"), _count(others, "crashed")
        lines.append(
            f"{len({one.name for one in others})} of them with {names}: {refused} refused, "
            f"{crashed} crashed; {len(_timed(others))} times, "
            f"{sum(bool(one.doubt) for one in others)} doubted; {within_pct(others):.1f} % within."
        )
    if absent := [f"{', '.join(names)} ({why})" for why, names in _absent(results).items()]:
        lines.append(f"Not made here: {'; '.join(absent)}.")
    if results.not_run:
        lines.append(f"No time was left for {len(results.not_run)} runs of callables.")
    return "\n".join((*lines, f"{provenance(results.environment, results.date)}.\n"))


def _absent(results: Results) -> dict[str, list[str]]:
    """Return the callables that could not be made, by the reason."""
    by_reason: dict[str, list[str]] = {}
    for name, why in sorted(results.absent.items()):
        by_reason.setdefault(why, []).append(f"`{name}`")
    return by_reason


def _repeated(results: Results, run: str) -> Iterator[tuple[Tried, Tried]]:
    """Yield the first time of a callable in a mode, and another one: of the same process, or `alone`.

    What is timed in another mode alone comes with the time of the same request.
    """
    first: dict[tuple[str, str | None], Tried] = {}
    for one in sorted(_timed(results.tried), key=lambda one: one.run == "alone"):
        key, asked = (one.name, one.mode), (one.name, f"asked {one.asked}")
        if one.environment:
            continue
        if one.run == "alone":
            if run == "alone" and (former := first.get(key) or first.get(asked)):
                yield former, one
            continue
        first.setdefault(asked, one)
        if first.setdefault(key, one) is not one and run == "again":
            yield first[key], one


TITLES = (
    "callables",
    "times",
    "refused",
    "crashed",
    "doubted",
    "not verified",
    "other mode",
    "broken",
    "within",
    "%",
)


def _counts(tried: Sequence[Tried]) -> list[str]:
    timed = _timed(tried)
    numbers = (
        len({one.name for one in tried}),
        len(timed),
        _count(tried, "refused"),
        _count(tried, "crashed"),
        sum(bool(one.doubt) for one in timed),
        sum(bool(one.not_verified) for one in timed),
        _count(tried, "other mode"),
        _count(tried, "broken"),
        sum(one.is_within for one in timed),
    )
    return [*map(str, numbers), f"{within_pct(tried):.1f}"]


def _by(title: str, tried: Sequence[Tried], key: Callable[[Tried], str]) -> str:
    groups: dict[str, list[Tried]] = {}
    for one in tried:
        groups.setdefault(key(one), []).append(one)
    rows = [[name, *_counts(group)] for name, group in groups.items()]
    return table((title, *TITLES), [*rows, ["**all**", *_counts(tried)]])


def kinds_table(results: Results) -> str:
    """Format a row for each kind, in the usual environment."""
    return _by("kind", _usual(results), lambda one: one.kind)


def modes_table(results: Results) -> str:
    """Format a row for each mode that was asked for, and for the check."""
    return _by("asked", _usual(results), lambda one: one.asked)


def environments_table(results: Results) -> str:
    """Format a row for each environment; empty if there is none but the usual one."""
    others = [one for one in results.tried if one.environment]
    return _by("environment", others, lambda one: one.environment) if others else ""


def reasons_table(results: Results) -> str:
    """Format a row for each reason of times that are not near their references."""
    outside = [one for one in _timed(_usual(results)) if not one.is_within]
    found = Counter(one.why for one in outside).most_common()
    return table(("times outside, by reason", "count"), [(why, str(count)) for why, count in found])


def exceptions(results: Results) -> str:
    """List what did not pass or was doubted, times outside, and times that differ when repeated."""
    lines = []
    for one in results.tried:
        where = ", ".join(filter(None, (one.asked, one.run if one.run == "alone" else "", one.environment)))
        if one.fate in ("refused", "crashed", "broken"):
            lines.append(f"- `{one.name}` ({where}): {one.fate}: {one.message}")
        elif one.doubt:
            lines.append(f"- `{one.name}` ({where}): doubted: {one.doubt}")
        if one.fate == "timed" and not one.is_within and one.run == "first":
            expected = "unknown" if one.reference_us is None else us(one.reference_us)
            by = f"{one.mode} by {one.source}, {one.launches:g} launches"
            lines.append(f"- `{one.name}` ({where}): {us(one.time_us)} µs for {expected} ({by}); {one.why}")
    for run in ("again", "alone"):
        for first, second in _repeated(results, run):
            if not is_near(second.time_us, first.time_us):
                times = [f"{us(one.time_us)} µs ({one.mode} by {one.source})" for one in (second, first)]
                lines.append(f"- `{first.name}` ({run}): {' after '.join(times)}")
    return "".join(f"{line}\n" for line in lines) or "There is no exception.\n"


def unverified_table(results: Results) -> str:
    """Format a row for each reason why outputs of timed calls could not be verified."""
    found = Counter(one.not_verified for one in _timed(_usual(results)) if one.not_verified).most_common()
    return table(("not verified", "times"), [(why, str(count)) for why, count in found])


def absent_table(results: Results) -> str:
    """Format a row for each reason why callables could not be made."""
    rows = [(why, ", ".join(names)) for why, names in _absent(results).items()]
    return table(("not here", "callables"), rows)


def report(results: Results) -> str:
    """Return all tables."""
    tables = (kinds_table, modes_table, environments_table, reasons_table, unverified_table, absent_table)
    return "\n".join((summary(results), *(one(results) for one in tables), exceptions(results)))
