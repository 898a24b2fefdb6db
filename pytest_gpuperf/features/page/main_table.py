"""The table of all measurements of a section, which needs no script."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pytest_gpuperf.features.page.markup import sentence, text
from pytest_gpuperf.judge.result import Status
from pytest_gpuperf.records.call import with_label
from pytest_gpuperf.report.number_format import number_in, show_time
from pytest_gpuperf.report.rows import SEVERITY, build_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_gpuperf.judge.result import TestResult
    from pytest_gpuperf.records import Measurement
    from pytest_gpuperf.report.rows import Row
    from pytest_gpuperf.statistics.decision import Decision

EXPLAINED = (Status.INCONCLUSIVE, Status.IMPROVED)
"""Verdicts that do not fail a test and whose reason stands below its row."""
CAPTION = (
    "All measurements, the worst verdict first: a test may have several. The change of the time against the "
    "baseline has an interval."
)
WHY_CHARACTERS = 400
"""Maximum length of a reason below a row; the details have all of it."""


class TableEntry(NamedTuple):
    """One row of the table."""

    result: TestResult
    label: str
    row: Row

    @property
    def name(self) -> str:
        """Node id, then the label unless it is `main`."""
        return with_label(self.result.record.nodeid, self.label)

    @property
    def summary(self) -> str:
        """`regressed 5.30 µs +3.2 ±0.5 %`."""
        timing = self.measurement.timing if self.measurement else None
        time, change = show_time(timing.time_us) if timing else "", self.row.change
        return " ".join(dict.fromkeys(filter(None, (self.row.verdict, time, change))))

    @property
    def measurement(self) -> Measurement | None:
        """The measurement; None for a test that measured nothing."""
        return self.result.record.measurements.get(self.label)

    @property
    def decision(self) -> Decision | None:
        """The change of the time; None if it was compared with nothing."""
        time = self.result.times.get(self.label)
        return time.decision if time is not None else None


def entries_of(results: Sequence[TestResult]) -> list[TableEntry]:
    """Return the rows, the worst verdict first, else in the order of the run."""
    entries = [
        TableEntry(result, label, row)
        for result, rows in zip(results, build_rows(results), strict=True)
        for label, row in zip([*result.record.measurements] or ["main"], rows, strict=True)
    ]
    return sorted(entries, key=_by_loss)


def _by_loss(entry: TableEntry) -> tuple[int, float]:
    """Return a key that sorts the worst verdict first, and the largest loss first of those that failed."""
    status, decision = entry.row.status, entry.decision
    return SEVERITY[status], -decision.change_pct if decision is not None and status.fails else 0.0


class _Cell(NamedTuple):
    title: str
    shown: str
    """HTML; empty if there is nothing to show."""
    value: float | None = None
    """Number to sort by; None to sort by text."""
    kind: str = ""
    """Class of the column: `less` is left out on narrow screens, `least` on most."""


def table_pieces(entries: Sequence[TableEntry], first: int) -> Iterator[str]:
    """Yield the table.

    Args:
        entries: Its rows, at least one.
        first: Number of the first row on the page.
    """
    rows = [_cells(entry) for entry in entries]
    columns = [cells[0] for cells in zip(*rows, strict=True) if any(cell.shown for cell in cells)]
    titles = [column.title for column in columns]
    yield '<div class="scroll" role="region" tabindex="0" aria-label="Table of the tests">\n'
    yield f"<table><caption>{CAPTION}</caption>\n<thead><tr>"
    for column in columns:
        yield f'<th scope="col" class="{column.kind}">{column.title}</th>'
    yield "</tr></thead>\n"
    for number, (entry, cells) in enumerate(zip(entries, rows, strict=True), first):
        yield f'<tbody id="t{number}" class="{entry.row.tone}"><tr>'
        yield from (_cell(cell) for cell in cells if cell.title in titles)
        yield "</tr>"
        if why := _why(entry):
            yield f'<tr class="why"><td colspan="{len(titles)}"><div>{sentence(why)}</div></td></tr>'
        yield "</tbody>\n"
    yield "</table></div>\n"


def _cell(cell: _Cell) -> str:
    value = "" if cell.value is None else f' data-v="{cell.value:.6g}"'
    tag, scope = ("th", ' scope="row"') if cell.title == "test" else ("td", "")
    return f'<{tag}{scope} class="{cell.kind}"{value}>{cell.shown}</{tag}>'


def _cells(entry: TableEntry) -> list[_Cell]:
    row, decision, measurement = entry.row, entry.decision, entry.measurement
    timing = measurement.timing if measurement else None
    metrics = measurement.profile.combined if measurement and measurement.profile else {}
    accuracy = measurement.accuracy if measurement is not None else None
    file, colons, name = row.test.partition("::")
    if not colons:
        file, name = "", file
    test = f'<span class="file">{text(file + colons)}</span><wbr>' * bool(file) + f"<span>{text(name)}</span>"
    test += f'<br><span class="file">{text(row.compiled)}</span>' * bool(row.compiled)
    change = f"<span>{sentence(row.change)}</span>" if row.change else ""
    rate = ((timing.tflop_per_s or 0) * 1e3 or timing.gb_per_s) if timing else None
    speeds = [number_in(metrics, name) for name in ("sm_throughput", "memory_throughput")]
    return [
        _Cell("test", test, kind="name"),
        _Cell("verdict", f'<span class="verdict">{text(row.verdict)}</span>', float(SEVERITY[row.status])),
        _Cell("time", _time(row.time), timing.time_us if timing else None, "number"),
        _Cell("change", change, decision.change_pct if decision else None, "change"),
        _Cell("rate", text(row.rate), rate, "number less"),
        _Cell("SOL", text(row.sol), max(filter(None, speeds), default=None), "number less"),
        _Cell("occupancy", text(row.occupancy), number_in(metrics, "achieved_occupancy"), "number less"),
        _Cell("top stall", text(row.stall), kind="stall less"),
        _Cell("error", text(row.error), accuracy.rms_ulp if accuracy else None, "number least"),
    ]


def _time(shown: str) -> str:
    """Return a time whose spread a narrow screen leaves out."""
    time, sign, spread = shown.partition(" ±")
    return (
        f'{sentence(time)}<span class="spread">{sentence(sign + spread)}</span>' if sign else sentence(shown)
    )


def _why(entry: TableEntry) -> str:
    """Return the first reason of a verdict that needs one; empty for the others."""
    result, status = entry.result, entry.row.status
    if not (status.fails or status in EXPLAINED):
        return ""
    own = [finding for finding in result.findings if finding.status is status]
    of_label = [finding.line for finding in own if finding.label in ("", entry.label)]
    why = of_label[0] if of_label else result.message().partition("\n")[0]
    why = why.partition("\n")[0].removesuffix(":")
    if entry.row.fails and not status.fails:
        why += "; not decided, which fails under --gpuperf-strict"
    return why if len(why) <= WHY_CHARACTERS else f"{why[:WHY_CHARACTERS]}…"
