"""Read the text that ncu prints on a terminal, as people paste it into issues.

The text is the details page, from `nv-nsight-cu-cli` 2019 on: for each launch a line with the kernel, then
sections with tables and the results of rules. Before 2022 the tables lack a row of titles, and the line of
the launch has a date in place of the grid. The text may be in a Markdown fence or a quotation, among other
text.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.ncu.details_page import LABELS, raw_name
from pytest_gpuperf.measure.ncu.printed import Cell, Launch, read_launches
from pytest_gpuperf.measure.ncu.rules import rule_from_console

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_gpuperf.measure.ncu.raw_kernel import RawKernel

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_QUOTATION = re.compile(r"^(?:\s{0,3}>)+ ?|^\s*(?://|\*)(?=\s)")
"""Start of a quoted line, or of one in a comment of a program."""
_LOG = re.compile(
    r"^(?:(?:\d{4}-\d\d-\d\dT[\d:.]+Z|\d{1,4}:|[\w.-]+ +\|)(?: |$)|\[\d+,\d+\]<std(?:out|err)>: ?)"
    r"(?=\s|==|\[\d|$)"
)
"""Start of a line in the log of GitHub Actions, mpirun, srun or Docker Compose."""
_EXTENTS = r"\((?P<grid>\d+, \d+, \d+)\)\s?x\s?\((?P<block>\d+, \d+, \d+)\)"
_LAUNCH = re.compile(
    rf"(?P<name>.*?)(?:\s*{_EXTENTS})?(?:, (?P<date>\d{{4}}-\w{{3}}-\d{{2}} [\d:]+))?"
    r"(?:, Context \d+, Stream \d+)?(?:, Device (?P<device>\d+))?(?:, CC (?P<cc>\d+\.\d+))?"
    r"(?:, Invocations (?P<invocations>[\d,.]+))?"
)
_IS_LAUNCH = re.compile(r", Context \d+, Stream \d+|, Invocations [\d,.]+$|, Device \d+, CC \d")
_PROFILING = re.compile(r'^==PROF== Profiling "(?P<name>.*?)"(?: - \d+)?(?: \(\d+/\d+\))?:')
_PROCESS = re.compile(r"\[\d+\] .+@[\w.:-]+")
_SECTION = re.compile(r"(?:Section|Table Name) ?: (?P<title>.+)")
_RULE_LINE = re.compile(r"-{3,} -{3,}(?: -{3,})*")
_RULE = re.compile(r"(?P<kind>OPT|INF|WRN|ERR)\s+(?P<text>\S.*)")
_RANGE = re.compile(r"<\d+,(?P<name>.+)>")
_TITLES = ("Metric Name", "Metric Unit", "Metric Value")
_VALUES = ("Metric Value", "Average")
_NUMBER = re.compile(
    r"(?:\(!\) )?(?:no data|n/a|[-+]?nan|[-+]?inf|[-+]?\d[\d.,]*(?:e[-+]?\d+)?)$", re.IGNORECASE
)
_UNIT = re.compile(
    r"%|SM|TPC|(?:[KMGT]?(?:byte|hz)|[num]?s(?:econd)?|cycle|inst|warp|block|register|thread|sector|request)"
    r"(?:/\w+)?",
    re.IGNORECASE,
)
_GROUP = re.compile(r"\d{3}(?:[.,]\d+)?")
_TABLES = {3: 1, 5: 3}
"""Number of values in a row, by the number of columns: name, unit, and the value or its three statistics."""
NO_NAME = "unnamed"


def is_console_text(text: str) -> bool:
    """Return True if a text has a launch or a section as ncu prints them."""
    return any(_section(line) or _is_launch(line) for line in map(_plain, text.splitlines()))


def read_console(text: str, notes: list[str] | None = None) -> list[RawKernel]:
    """Read all launches of a text that ncu printed, in their order.

    Args:
        text: The text.
        notes: Takes sentences about what was read.

    Raises:
        GpuperfError: The text has no launch with a value.
    """
    notes = [] if notes is None else notes
    reader = _Reader()
    for number, line in enumerate(text.splitlines(), 1):
        reader.take(number, _plain(line))
    launches = [launch for launch in reader.launches if launch.cells]
    if not launches:
        raise GpuperfError(
            "the text of ncu has no launch with a value",
            expected="lines such as `Duration  us  117.98` below `Section: …`",
            next_step="copy the whole output of ncu, or write a report: `ncu --export REPORT`",
        )
    profiled, shown = len(reader.profiled), sum(launch.invocations for launch in launches)
    if profiled > shown:
        notes.append(f"ncu profiled {profiled} launches, the text has the values of {shown}")
    elif len(reader.launches) > len(launches):
        notes.append(f"{len(reader.launches) - len(launches)} launches in the text have no values")
    if reader.in_table:
        notes.append("the text ends in the middle of a table")
    if reader.unread:
        notes.append(
            f"{len(reader.unread)} lines in tables were not read, the first: {reader.unread[0].strip()}"
        )
    return read_launches(launches, notes)


class _Reader:
    """The state between two lines."""

    def __init__(self) -> None:
        self.launches: list[Launch] = []
        self.profiled: list[str] = []
        self.unread: list[str] = []
        self._rows: int | None = None
        self._is_advice = False
        self._has_line = False
        self._section = ""
        self._seen: set[tuple[str, str, str]] = set()
        self._table = ""
        self._widths: list[tuple[int, int]] = []
        self._before = ""
        self._rule: tuple[str, list[str]] | None = None

    @property
    def in_table(self) -> bool:
        """True between the first rule of a table and its last."""
        return self._rows is not None

    def take(self, number: int, line: str) -> None:
        """Read one line."""
        text = line.strip()
        if found := _PROFILING.match(text):
            self.profiled.append(found["name"])
        if text.startswith("==") or not text:
            self._end_rule()
        elif _RULE_LINE.fullmatch(text):
            self._rule_line(line, text)
        elif _is_launch(line):
            self._end_rule()
            self._begin(text)
        elif found := _SECTION.fullmatch(text):
            self._end_rule()
            self._rows = None
            if text.startswith("Section"):
                self._section, self._table = found["title"].strip(), ""
            else:
                self._table = found["title"].strip()
        elif found := _RULE.fullmatch(text):
            self._end_rule()
            self._rule = (found["kind"], [found["text"]])
        elif self._rule is not None:
            self._rule[1].append(text)
        elif self.in_table:
            self._row(number, line)
        elif (found := _RANGE.fullmatch(text)) and self.launches and not self._section:
            self.launches[-1].ranges += (found["name"],)
        if text:
            self._before = text

    def _begin(self, text: str) -> None:
        found = _LAUNCH.fullmatch(text)
        if found is None:
            return
        name = found["name"]
        if not name and not _PROCESS.fullmatch(self._before):
            name = self._before  # wrapped by a terminal or an editor
        self._section, self._table, self._rows = "", "", None
        self._seen, self._has_line = set(), True
        self.launches.append(
            Launch(
                demangled=name or NO_NAME,
                grid=_extent(found["grid"]),
                block=_extent(found["block"]),
                compute_capability=found["cc"] or "",
                device=None if found["device"] is None else int(found["device"]),
                invocations=int(re.sub(r"\D", "", found["invocations"] or "")[:9] or 1),
            )
        )

    def _rule_line(self, line: str, text: str) -> None:
        if text.count(" ") + 1 not in _TABLES:
            return
        self._end_rule()
        # Up to three rules: above the titles, below them, and below the rows.
        self._is_advice = self._is_advice and self._rows == 0
        self._rows = None if self._rows else 0
        self._widths = [found.span() for found in re.finditer("-+", line)]

    def _row(self, number: int, line: str) -> None:
        values = _TABLES[len(self._widths)]
        fields = _by_columns(line, self._widths) or _by_words(line, values)
        if any(title in line for title in _TITLES):
            # Advice of rules has the titles Metric Name, Value and Guidance.
            self._is_advice = not any(title in line for title in _VALUES)
            return
        self._rows = (self._rows or 0) + 1
        if self._is_advice:
            return
        if fields is None or not _is_row(fields, values):
            self.unread.append(line)
            return
        label, unit, *cells = fields
        key = (self._section, self._table, label)
        if key in self._seen and self._has_line:
            self.unread.append(line)
            return
        if not self.launches or key in self._seen:
            self._again()
        self._seen.add(key)
        name = raw_name(
            self._section, f"{self._table}: {label}" if self._table and "__" not in label else label
        )
        extremes = (cells[0], cells[1]) if values == 3 else None
        self.launches[-1].cells.append(Cell(name, cells[-1], unit, number, extremes))

    def _again(self) -> None:
        """Begin a launch whose own line is not in the text."""
        place = len(self.launches)
        alone = len(set(self.profiled)) == 1 or place < len(self.profiled)
        name = self.profiled[min(place, len(self.profiled) - 1)] if self.profiled and alone else NO_NAME
        self.launches.append(Launch(name))
        self._seen, self._has_line = set(), False

    def _end_rule(self) -> None:
        if self._rule is not None and self.launches:
            kind, lines = self._rule
            self.launches[-1].rules.append(rule_from_console(self._section, kind, " ".join(lines)))
        self._rule = None


def _plain(line: str) -> str:
    return _QUOTATION.sub("", _LOG.sub("", _COLOUR.sub("", line.replace("\ufeff", "").expandtabs().rstrip())))


def _section(line: str) -> bool:
    found = _SECTION.fullmatch(line.strip())
    return found is not None and line.strip().startswith("Section")


def _is_launch(line: str) -> bool:
    text = line.strip()
    return _IS_LAUNCH.search(text) is not None and _LAUNCH.fullmatch(text) is not None


def _extent(text: str | None) -> tuple[int, int, int]:
    if text is None:
        return 0, 0, 0
    x, y, z = (int(part[:10]) for part in text.split(", "))
    return x, y, z


def _by_columns(line: str, widths: Sequence[tuple[int, int]]) -> list[str] | None:
    """Cut a row at the columns of the rule above it; None if it does not keep to them."""
    ends = [end for _, end in widths[:-1]]
    if (
        len(line) <= ends[-1]
        or any(line[end : end + 1].strip() for end in ends)
        or line[: widths[0][0]].strip()
    ):
        return None
    starts = [start for start, _ in widths]
    return [line[start:end].strip() for start, end in zip(starts, [*starts[1:], None], strict=True)]


def _by_words(line: str, values: int) -> list[str] | None:
    """Split a row that has lost its columns: name, unit and values between any white space."""
    words = line.split()
    cells: list[str] = []
    while words and len(cells) < values:
        cell = words.pop()
        if cell.lower() in ("nan", "n/a", "data") and words and words[-1] in ("(!)", "no"):
            cell = f"{words.pop()} {cell}"
        while _GROUP.fullmatch(cell.split(" ")[0]) and words and re.fullmatch(r"\d{1,3}", words[-1]):
            cell = f"{words.pop()} {cell}"
        cells.insert(0, cell)
    label = " ".join(words)
    if label in LABELS or len(words) < 2 or not _UNIT.fullmatch(words[-1]):
        return [label, "", *cells]
    return [" ".join(words[:-1]), words[-1], *cells]


def _is_row(fields: Sequence[str], values: int) -> bool:
    if len(fields) != values + 2 or not fields[0] or " " in fields[1].strip():
        return False
    return values == 1 or all(_NUMBER.match(text) for text in fields[2:])
