"""Details of one measurement as markup, which the page's script shows when a reader opens a row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gpuperf.features.page.markup import html_table, link, sentence, text
from pytest_gpuperf.features.page.measurement_facts import facts_of
from pytest_gpuperf.features.page.measurement_pictures import pictures_of
from pytest_gpuperf.features.page.svg_renderer import svg
from pytest_gpuperf.judge.counters import compare_counters
from pytest_gpuperf.metrics import METRICS
from pytest_gpuperf.records.call import with_label
from pytest_gpuperf.records.change import show_pair
from pytest_gpuperf.registry import registry
from pytest_gpuperf.report.number_format import show_movement, show_reader
from pytest_gpuperf.report.rows import TONES
from pytest_gpuperf.report.table import EFFECTS, Column, Table
from pytest_gpuperf.report.terminal_table import kernel_columns

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_gpuperf.features.page.run_section import Section
    from pytest_gpuperf.judge.result import TestResult
    from pytest_gpuperf.records import Measurement
    from pytest_gpuperf.records.change import Change

KERNELS_SHOWN = 40
"""Maximum number of kernels in a table; `gpuperf trace` shows all of a trace."""
LINES_SHOWN = 60
"""Maximum number of lines below a finding."""
COLUMNS_BESIDE = 4
"""Maximum number of columns of a table next to another part."""


def details_of(section: Section, result: TestResult, label: str) -> str:
    """Return everything to show of one measurement: texts, tables and pictures.

    Args:
        section: The section.
        result: The test.
        label: The label; a test without measurements has none of its own.
    """
    measurement = result.record.measurements.get(label)
    parts = _parts(section, result, label, measurement) if measurement is not None else ()
    source, findings = _source(section, result, label), "".join(_findings(result, label))
    return f'{source}{findings}<div class="columns">{"".join(parts)}</div>'


def _source(section: Section, result: TestResult, label: str) -> str:
    nodeid, commit = result.record.nodeid, section.run.environment.commit
    address = section.links.of_test(commit, nodeid, section.summary.lines.get(nodeid))
    where = f" · {link(address, f'source at {commit[:7]}')}" if address else ""
    return f'<p class="source"><code>{text(with_label(nodeid, label))}</code>{where}</p>'


def _findings(result: TestResult, label: str) -> Iterator[str]:
    """Yield the reasons of the verdict that are about a label, the worst first, each line once."""
    known: set[str] = set()
    for finding in result.findings:
        if finding.label in ("", label) or label not in result.record.measurements:
            tone = "bad" if result.fails_by(finding.status) else TONES[finding.status]
            first, *more = [*(finding.line.splitlines() or [""]), *finding.more]
            lines = "\n".join(sentence(line) for line in more[:LINES_SHOWN] if line and line not in known)
            known.update(more)
            status = "remark" if tone == "pass" else result.show(finding.status)
            below = f"<pre>{lines}</pre>" if lines else ""
            verdict = f'<span class="verdict">{status}</span>'
            yield f'<div class="finding {tone}">{verdict} {sentence(first)}{below}</div>'


def _parts(section: Section, result: TestResult, label: str, measurement: Measurement) -> Iterator[str]:
    known, runs = section.known(result, label)
    if known is not None and (moved := compare_counters(measurement, known).changes):
        table = _moved_table(moved)
        yield _part("Counters that moved", table, kind="tall")
    if "explain" in registry().features:
        from pytest_gpuperf.features.explain.diagnosis_rows import explain_measurement
        from pytest_gpuperf.features.explain.report import explain_report

        if (found := explain_measurement(result.record, label)) is not None:
            [table] = explain_report([((), [found])]).tables
            columns = [column for column in table.columns if column.title != "test"]
            yield _part("Explanation", Table(columns, notes=table.notes))
    facts = facts_of(measurement, result.record.sanitizer)
    pairs = "".join(f"<dt>{text(name)}</dt><dd>{sentence(fact)}</dd>" for name, fact in facts)
    yield f'<div class="part"><h3>Measurement</h3><dl class="facts">{pairs}</dl></div>'
    comparison = result.times.get(label)
    pictures = pictures_of(measurement, baseline=known, runs=runs, comparison=comparison)
    yield f'<div class="pictures">{"".join(map(svg, pictures))}</div>' if pictures else ""
    if (profile := measurement.profile) and profile.kernels and not measurement.is_static:
        table = Table(kernel_columns(profile.kernels[:KERNELS_SHOWN]))
        yield _part("Counters", table, f"by {show_reader(profile)}")
    if (trace := measurement.trace) is not None and "trace" in registry().features:
        from pytest_gpuperf.features.trace.kernel_table import kernel_table, region_line, trace_line

        lines = (trace_line(trace).removeprefix("trace: "), region_line(trace))
        yield _part("Kernels of a call", kernel_table(trace, shown=KERNELS_SHOWN), *lines)


def _part(title: str, table: Table, *lines: str, kind: str = "") -> str:
    kind = kind or "wide" * (sum(any(column.cells) for column in table.columns) > COLUMNS_BESIDE)
    above = "".join(f'<p class="note">{text(line)}</p>' for line in lines)
    return f'<div class="part {kind}"><h3>{title}</h3>{above}{html_table(table, title)}</div>'


def _moved_table(changes: Sequence[Change]) -> Table:
    pairs = [show_pair(change.baseline, change.actual) for change in changes]
    units = [METRICS[change.metric].unit if change.metric in METRICS else "" for change in changes]
    moves = [show_movement(change, unit) for change, unit in zip(changes, units, strict=True)]
    return Table(
        [
            Column("counter", [change.metric for change in changes], "name", code=True),
            Column("baseline", [old for old, _ in pairs]),
            Column("now", [new for _, new in pairs]),
            Column("unit", units, "unit"),
            Column("change", moves, tones=[EFFECTS[change.worse] for change in changes]),
        ]
    )
