"""Results of one measurement of the defences, and their tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks import results_file
from benchmarks.markdown import provenance, table
from pytest_gpuperf.records import Environment, Record

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = 1
RESULTS = ("refused", "doubted", "reported", "honest time", "accepted", "broken")
"""`broken`: an exception ended the exploit, so it shows nothing."""
SHOWN = {
    "accepted": ("accepted",),
    "warned of": ("doubted",),
    "refused": ("refused",),
    "honest": ("honest time", "reported"),
    "broken": ("broken",),
}
"""Columns of the table: those with an honest time or a notice about the reference gain nothing."""
VERIFY = ("auto", "strict")
MODES = ("auto", "hot", "cold", "queued")
THEMES = {
    "on_streams": "streams and threads",
    "on_calls": "calls that do their work only sometimes",
    "on_memory": "outputs from memory",
    "on_clocks": "replaced functions",
    "on_caches": "inputs that stay in the L2",
    "on_state": "settings left changed, hooks, exceptions",
}


class Tried(Record, frozen=True, kw_only=True):
    """One exploit in one mode."""

    name: str
    mode: str
    result: str
    """One of `RESULTS`."""
    message: str = ""
    """Beginning of the message of a test that did not pass."""
    theme: str = ""
    verify: str = "auto"
    """`strict` if doubts failed."""
    time_us: float = 0.0
    seconds: float = 0.0
    """Wall time of the test."""


class Cost(Record, frozen=True, kw_only=True):
    """Wall time of one honest test, in seconds: the mean over rounds."""

    name: str
    with_s: float
    without_s: float

    @property
    def cost_pct(self) -> float:
        """Part of the test's wall time that the defences take, in %."""
        return 100 * (1 - self.without_s / self.with_s)


class Results(Record, frozen=True, kw_only=True):
    """Results of one measurement."""

    schema: int
    date: str
    """UTC, ISO 8601."""
    environment: Environment
    exploits: tuple[Tried, ...] = ()
    costs: tuple[Cost, ...] = ()


def read(path: Path) -> Results:
    """Read the file; see `benchmarks.results_file.read`."""
    return results_file.read(path, Results, schema=SCHEMA)


def summary(results: Results) -> str:
    """Return the counts in one sentence each, and the machine."""
    with_s = sum(one.with_s for one in results.costs)
    lines = [
        f"{len({one.name for one in tried})} exploits in up to {len(MODES)} modes, verified `{verify}`: "
        f"{counts['accepted']} of {len(tried)} are accepted, {counts['doubted']} doubted, "
        f"{counts['refused']} refused, {counts['reported']} have a notice, {counts['honest time']} get "
        f"the time of honest work, {counts['broken']} are broken; they took "
        f"{sum(one.seconds for one in tried):.0f} s."
        for verify, tried in _by_verify(results).items()
        for counts in [_counts(tried, RESULTS)]
    ]
    if with_s:
        pct = 100 * (1 - sum(one.without_s for one in results.costs) / with_s)
        each = sorted(one.cost_pct for one in results.costs)
        lines.append(
            f"The defences take {pct:.1f} % of the wall time of {len(results.costs)} honest tests, between "
            f"{each[0]:.1f} and {each[-1]:.1f} % of each."
        )
    return "\n".join((*lines, f"{provenance(results.environment, results.date)}.\n"))


def themes_table(results: Results) -> str:
    """Format a row for each kind of exploit, with the counts of each verification."""
    by_verify = _by_verify(results)
    rows = []
    for theme, shown in THEMES.items():
        row = [shown, str(len({one.name for one in results.exploits if one.theme == theme}))]
        for tried in by_verify.values():
            counts = _counts([one for one in tried if one.theme == theme], RESULTS)
            row += [str(sum(counts[kind] for kind in kinds)) for kinds in SHOWN.values()]
        rows.append(row)
    titles = [f"{verify}: {title}" for verify in by_verify for title in SHOWN]
    return table(("exploits by", "count", *titles), rows)


def exceptions(results: Results) -> str:
    """List accepted exploits, and with doubts that fail those that are doubted all the same."""
    wrong = {"auto": ("accepted",), "strict": ("accepted", "doubted")}
    found = [one for one in results.exploits if one.result in wrong[one.verify]]
    lines = [
        f"- `{one.name}` in mode {one.mode}, {one.verify}: {one.result} {one.message}".rstrip()
        for one in found
    ]
    return "\n".join((*lines, "")) if lines else "No exploit is accepted.\n"


def costs_table(results: Results) -> str:
    """Format the cost of the defences for each honest test."""
    rows = [
        (f"`{one.name}`", f"{one.with_s:.2f}", f"{one.without_s:.2f}", f"{one.cost_pct:.1f}")
        for one in results.costs
    ]
    return table(("test", "with, s", "without, s", "% of the test"), rows)


def _by_verify(results: Results) -> dict[str, list[Tried]]:
    found = {verify: [one for one in results.exploits if one.verify == verify] for verify in VERIFY}
    return {verify: tried for verify, tried in found.items() if tried}


def _counts(tried: list[Tried] | tuple[Tried, ...], kinds: tuple[str, ...]) -> dict[str, int]:
    return {kind: sum(one.result == kind for one in tried) for kind in kinds}
