"""Tables and excerpts that the pages take from the code, the baselines and the benchmarks."""

from __future__ import annotations

import gzip
import json
import re
from itertools import groupby
from typing import TYPE_CHECKING, TypeVar

from benchmarks import clock_spread, works_with
from benchmarks.counter_agreement import results as counter_agreement
from benchmarks.counter_agreement import tables as counters
from benchmarks.gate_power import analysis
from benchmarks.gate_power import tables as gate
from benchmarks.gate_power.samples import read as read_samples
from benchmarks.synchronising import tables as synchronising
from benchmarks.timing_accuracy import results
from benchmarks.timing_accuracy import tables as accuracy
from pytest_gpuperf.judge.explain import RULES
from pytest_gpuperf.measure.cupti.chip_metrics import NoHostLibraryError, passes_each
from pytest_gpuperf.measure.sanitizer.assignment import assign
from pytest_gpuperf.measure.sanitizer.log_reader import read_log
from pytest_gpuperf.measure.sanitizer.sanitizing_pass import HITS_KEPT
from pytest_gpuperf.measure.sanitizer.wording import errors_of
from pytest_gpuperf.metrics import METRICS, Combining, Tier, ncu_metric_names
from pytest_gpuperf.metrics.chips import CHIPS
from pytest_gpuperf.metrics.presets import PRESETS, PURPOSES
from pytest_gpuperf.records import SanitizerResult
from pytest_gpuperf.records.passes import PassFolder
from pytest_gpuperf.settings.options import OPTIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from benchmarks.gate_power.samples import Line
    from pytest_gpuperf.metrics import Metric

Found = TypeVar("Found")

ACCURACY, CLOCKS, GATE = "timing_accuracy.json", "clock_spread.json", "gate_power.json"
COUNTERS = "counter_agreement.json"
WORKS_WITH = works_with.FILE.name
NOT_YET = "Not measured yet.\n"


def options(_: Path) -> str:
    """List all options with the help of `pytest --help`."""
    lines = [
        "- `--gpuperf` (ini `gpuperf`; default: off): check, time and profile GPU kernels and judge them "
        "against their baselines"
    ]
    for option in OPTIONS:
        value = f"{{{','.join(option.choices)}}}" if option.choices else option.metavar
        flag = option.flag if option.switch else f"{option.flag}={value}"
        default = f"`{option.default}`" if option.default else option.unset
        lines.append(f"- `{flag}` (ini `{option.ini}`; default: {default}): {option.help}")
    return "".join(f"{line}\n" for line in lines)


def metrics(_: Path) -> str:
    """List all metrics; the list of chips names those that a chip lacks."""
    # The page says once that a sample of a stall is the stall of that name.
    groups = groupby(METRICS.values(), lambda metric: re.sub(r"^sampled\..*", "sampled", metric.name))
    return "".join(_item(list(group)) for _, group in groups)


def _item(alike: list[Metric]) -> str:
    metric = alike[0]
    # The page names the usual tier and weighting once.
    tier = "" if metric.tier is Tier.STATE else metric.tier.value
    combining = "" if metric.combining is Combining.MEAN else metric.combining.value
    facts = (metric.unit.replace("us", "µs"), metric.better, tier, combining)
    shown = f"- {', '.join(f'`{one.name}`' for one in alike)} ({', '.join(filter(None, facts))})"
    if len(alike) > 1:
        return f"{shown}\n"
    return f"{shown}: {'; '.join(filter(None, (_meaning(metric), _spellings(metric))))}\n"


def _meaning(metric: Metric) -> str:
    return metric.explanation.removeprefix("share of all warp cycles spent ")


def _spellings(metric: Metric) -> str:
    if metric.name.startswith("stall."):
        return ""  # the page has their pattern
    spellings: dict[tuple[str, ...], list[str]] = {}
    for chip in CHIPS:
        spellings.setdefault(metric.requests(chip.name), []).append(str(chip))
    usual = max(filter(None, spellings), key=lambda names: len(spellings[names]), default=())
    shown = [", ".join(f"`{name}`" for name in usual)]
    for names, chips in spellings.items():
        if names and names != usual:
            shown.append(f"{', '.join(f'`{name}`' for name in names)} on {', '.join(chips)}")
    return "; ".join(filter(None, shown))


SHOWN_CHIPS = ("ga100", "gh100", "gb100")
"""Chips whose passes the table of presets shows."""


def presets(root: Path) -> str:
    """List all presets with their cost; without CUPTI's library, return the present text of the page."""
    sets = list(PRESETS.values())
    try:
        passes = [
            passes_each(chip, [ncu_metric_names(names, chip) for names in sets]) for chip in SHOWN_CHIPS
        ]
    except NoHostLibraryError:
        page = (root / "docs" / "reference" / "metrics.md").read_text(encoding="utf-8")
        return page.partition("<!-- generated: presets -->\n")[2].partition("\n\n")[0] + "\n"
    rows = [
        (f"`{name}`", purpose, str(len(PRESETS[name])), *(str(of_chip[i]) for of_chip in passes))
        for i, (name, purpose) in enumerate(PURPOSES.items())
    ]
    return _table(("preset", "purpose", "metrics", *map(str.upper, SHOWN_CHIPS)), rows)


def chips(_: Path) -> str:
    """List the chips with the metrics that they lack."""
    lines = []
    for chip in CHIPS:
        same = "".join(f", `{other}`" for other in chip.others)
        lacking = ", ".join(f"`{name}`" for name, metric in METRICS.items() if chip.name not in metric.chips)
        lines.append(f"- `{chip.name}`{same} ({chip.compute_capability}): {lacking}\n")
    return "".join(lines)


def rules(_: Path) -> str:
    """List all rules of `gpuperf explain`."""
    return "".join(f"- `{rule.code}`: {rule.condition} ({rule.source})\n" for rule in RULES)


def _of_results(
    file: str, read: Callable[[Path], Found], show: Callable[[Found], str]
) -> Callable[[Path], str]:
    """Make a function that shows the results of a benchmark, or says that there are none yet."""

    def text(root: Path) -> str:
        path = root / "benchmarks" / "results" / file
        return show(read(path)) if path.exists() else NOT_YET

    return text


def _synchronising(show: Callable[[Sequence[Line]], str]) -> Callable[[Path], str]:
    """Make a function that shows the samples of calls that synchronise, or says that there are none yet."""

    def text(root: Path) -> str:
        paths = sorted((root / "benchmarks" / "results").glob("synchronising*.jsonl.gz"))
        return show(read_samples(paths)) if paths else NOT_YET

    return text


def token_reduction(_: Path) -> str:
    """Compare the operations of the suite's encoder with all tokens and with few."""
    import torch

    from suites.kernels.token_reduction import REDUCING, Encoder, kept_of, tokens_of

    meta, half = torch.device("meta"), torch.float16
    full, reduced = (Encoder.random(meta, half, reducing) for reducing in ((), REDUCING))
    rows = []
    for size in (224, 448):
        left = [tokens_of(size)]
        for _block in REDUCING:
            left.append(1 + kept_of(left[-1]))
        operations = [encoder.flops(1, left[0]) for encoder in (full, reduced)]
        share = f"{100 * operations[1] / operations[0]:.0f} %"
        rows.append(
            (str(size), ", ".join(map(str, left)), *(f"{count / 1e9:.1f}" for count in operations), share)
        )
    titles = ("pixels a side", "tokens", "full, GFLOP an image", "reduced, GFLOP an image", "of the full")
    return _table(titles, rows)


def host_sessions(root: Path) -> str:
    """Compare the times of the suite's encoder in each session of its baseline."""
    path = root / "baselines" / "nvidia-h200" / "test_token_reduction.json"
    tests = json.loads(path.read_text(encoding="utf-8"))["tests"]

    def times_of(nodeid: str) -> dict[str, float]:
        sessions = tests[nodeid]["measurements"]["main"]["time"]["sessions"]
        return {session["run"]: session["time_us"] for session in sessions}

    rows = []
    for nodeid in tests:
        name = nodeid.partition("::")[2]
        if name.startswith("test_full"):
            full, reduced = times_of(nodeid), times_of(nodeid.replace("full", "reduced"))
            cells = (", ".join(f"{time / 1000:.2f}" for time in times.values()) for times in (full, reduced))
            changes = ", ".join(f"{100 * (reduced[run] / full[run] - 1):+.1f}" for run in full)
            rows.append((f"`{name}`", *cells, changes))
    return _table(("test", "ms", "reduced, ms", "change, %"), rows)


PLANTED = {
    "memcheck": ("test_out_of_bounds",),
    "initcheck": ("test_unwritten",),
    "synccheck": ("test_divergent",),
}
"""Tests with errors in the captures of each tool."""


def sanitizer_messages(root: Path) -> str:
    """Show the messages of tests with errors that compute-sanitizer found on a GPU."""
    texts = []
    for tool, tests in PLANTED.items():
        folder = root / "tests" / "data" / "captures" / "sanitizer" / tool
        marks = [event for event in PassFolder(folder).events() if event.range]
        with gzip.open(folder / "sanitizer.log.gz", "rt", encoding="utf-8") as log:
            hits = assign(marks, read_log(log)).hits
        for test in tests:
            found = hits[f"test_k.py::{test}"]
            errors = errors_of(SanitizerResult(tool=tool, hits=found.first(HITS_KEPT), count=found.count))
            lines = "\n".join(f"gpuperf: {error}".replace("\n", "\n    ") for error in errors)
            texts.append(f"--- {test}\n{lines}\n")
    return f"```text\n{''.join(texts)}```\n"


GENERATED: Mapping[str, Callable[[Path], str]] = {
    "options": options,
    "metrics": metrics,
    "presets": presets,
    "chips": chips,
    "rules": rules,
    "accuracy_summary": _of_results(ACCURACY, results.read, accuracy.summary),
    "accuracy_tools": _of_results(ACCURACY, results.read, accuracy.others_table),
    "clock_spread": _of_results(CLOCKS, clock_spread.read, clock_spread.summary),
    "counters_source": _of_results(COUNTERS, counter_agreement.read, counters.source),
    "counters_agreement": _of_results(COUNTERS, counter_agreement.read, counters.agreement_table),
    "counters_nsight_python": _of_results(COUNTERS, counter_agreement.read, counters.nsight_python),
    "counters_cost": _of_results(COUNTERS, counter_agreement.read, counters.cost),
    "gate_summary": _of_results(GATE, analysis.read, gate.summarised),
    "gate_outcomes": _of_results(GATE, analysis.read, lambda found: gate.outcomes(found.held_out)),
    "synchronising": _synchronising(synchronising.verdicts),
    "synchronising_source": _synchronising(synchronising.origin),
    "host_sessions": host_sessions,
    "sanitizer_messages": sanitizer_messages,
    "token_reduction": token_reduction,
    "works_with": _of_results(WORKS_WITH, works_with.read, works_with.times_table),
    "works_with_exceptions": _of_results(WORKS_WITH, works_with.read, works_with.exceptions),
    "works_with_summary": _of_results(WORKS_WITH, works_with.read, works_with.summary),
}
"""Functions by the name in the marker; no text has an empty line."""


def _table(titles: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    titles = tuple(titles)
    lines = [f"| {' | '.join(cell.replace('|', '&#124;') for cell in line)} |\n" for line in (titles, *rows)]
    return "".join((lines[0], f"|{'---|' * len(titles)}\n", *lines[1:]))
