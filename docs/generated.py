"""Tables and excerpts that the pages take from the code, the baselines and the benchmarks."""

from __future__ import annotations

import gzip
import json
from functools import partial
from statistics import median, quantiles
from typing import TYPE_CHECKING, TypeVar

from benchmarks import clock_spread, collectives, costs, public_problems, settling, several_gpus, works_with
from benchmarks.counter_agreement import results as counter_agreement
from benchmarks.counter_agreement import tables as counters
from benchmarks.defences import results as defences
from benchmarks.environments import __main__ as environments
from benchmarks.gate_power import analysis, unchanged
from benchmarks.gate_power import tables as gate
from benchmarks.gate_power.samples import read as read_samples
from benchmarks.history_power import analysis as history_power
from benchmarks.history_power import tables as history
from benchmarks.synchronising import tables as synchronising
from benchmarks.timing_accuracy import results
from benchmarks.timing_accuracy import tables as accuracy
from benchmarks.zoo import results as zoo
from pytest_gpuperf.features.explain.diagnosis import RULES
from pytest_gpuperf.features.sanitizer.hit_assignment import assign
from pytest_gpuperf.features.sanitizer.log_reader import read_log
from pytest_gpuperf.features.sanitizer.sanitizing_pass import HITS_KEPT
from pytest_gpuperf.measure.cupti.chip_metrics import NoHostLibraryError, passes_each
from pytest_gpuperf.metrics import ncu_metric_names
from pytest_gpuperf.metrics.presets import PRESETS, PURPOSES
from pytest_gpuperf.records import SanitizerResult
from pytest_gpuperf.records.passes import PassFolder
from pytest_gpuperf.records.run_store import load_run
from pytest_gpuperf.records.sanitizer_error_texts import errors_of
from pytest_gpuperf.settings.options import all_options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from benchmarks.gate_power.samples import Line
    from pytest_gpuperf.records import Measurement
    from pytest_gpuperf.registry import Option

Found = TypeVar("Found")

ACCURACY, CLOCKS, GATE = "timing_accuracy.json", "clock_spread.json", "gate_power.json"
HISTORY = "history_power.json"
COUNTERS = "counter_agreement.json"
PUBLIC, WORKS_WITH = public_problems.FILE.name, works_with.FILE.name
ENVIRONMENTS = "environments.json"
DEFENCES, COLLECTIVES = "defences.json", "collectives.json"
FIRST_VERDICT = "costs_first_verdict.json"
SEVERAL_GPUS, SEVERAL_H100S = "several_gpus.json", "several_gpus_h100.json"
NOT_YET = "Not measured yet.\n"


def options(_: Path) -> str:
    """List all options with the help of `pytest --help`."""
    lines = [
        "- `--gpuperf` (default: off): check, time and profile GPU kernels and judge them "
        "against their baselines"
    ]
    lines += [_option(option, option.flag) for option in all_options() if not option.key_only]
    return "".join(f"{line}\n" for line in lines)


def keys(_: Path) -> str:
    """List the ini keys that have no option."""
    lines = [_option(option, option.ini) for option in all_options() if option.key_only]
    return "".join(f"{line}\n" for line in lines)


def _option(option: Option, name: str) -> str:
    value = f"{{{','.join(option.choices)}}}" if option.choices else option.metavar
    default = f"`{option.default}`" if option.default else option.unset or "none"
    return f"- `{name if option.switch else f'{name}={value}'}` (default: {default}): {option.help}"


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


def _shards(
    name: str, read: Callable[[Sequence[Path]], Found], show: Callable[[Found], str]
) -> Callable[[Path], str]:
    """Make a function that shows the results of a benchmark of which several files have parts."""

    def text(root: Path) -> str:
        paths = sorted(root.glob(f"benchmarks/results/{name}_*.json"))
        return show(read(paths)) if paths else NOT_YET

    return text


def _with_live(show: Callable[[analysis.Summary, Sequence[settling.Part]], str]) -> Callable[[Path], str]:
    """Make a function that shows the samples of the gate next to runs in fresh checkouts."""

    def text(root: Path) -> str:
        live = settling.parts(sorted(root.glob("benchmarks/results/settling_*.json")))
        return _of_results(GATE, analysis.read, lambda summary: show(summary, live))(root)

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


MEDIUM_US = 30, 130
FULL_CLOCK = 0.98


def medium_kernels(root: Path) -> str:
    """Compare the sources of the times of medium kernels in the recordings: one a call, at the full clock."""
    longer: dict[str, dict[tuple[str, str], tuple[float, float, str]]] = {}
    for path in sorted(root.glob("baselines/*/recordings/*.json")):
        run = load_run(path)
        of_model = longer.setdefault(run.environment.gpu.name, {})
        for test in run.tests:
            for label, measured in test.measurements.items():
                if (times := _both_sources(measured)) is not None:
                    of_model[test.nodeid, label] = (*times, run.started_at[:10])
    lines = []
    for model, found in longer.items():
        if len(found) > 1:
            low, _, high = quantiles([events - cupti for events, cupti, _ in found.values()], n=4)
            middle = median(100 * (events / cupti - 1) for events, cupti, _ in found.values())
            dates = sorted({date for *_, date in found.values()})
            lines.append(
                f"On {model}, {len(found)} such kernels recorded on {', '.join(dates)} are {low:.2f} to "
                f"{high:.2f} µs longer by events (the middle half), {middle:.1f} % in the median.\n"
            )
    return "".join(lines)


def _both_sources(measured: Measurement) -> tuple[float, float] | None:
    """Return the time by events and by CUPTI of a medium kernel at the full clock; None for others."""
    timing, code, (least, most) = measured.timing, measured.code, MEDIUM_US
    if timing is None or code is None or timing.mode != "hot":
        return None
    events_us, cupti_us = timing.us_by("events"), timing.us_by("cupti")
    if events_us is None or cupti_us is None or not least < cupti_us < most:
        return None
    clock = timing.conditions
    full = clock is not None and clock.sm_clock_mhz >= FULL_CLOCK * clock.max_sm_clock_mhz
    alone = sum(kernel.launches for kernel in code.kernels) == 1
    return (events_us, cupti_us) if full and alone else None


PLANTED = {
    "memcheck": ("test_out_of_bounds",),
    "initcheck": ("test_unwritten",),
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
    "keys": keys,
    "presets": presets,
    "rules": rules,
    "accuracy_summary": _of_results(ACCURACY, results.read, accuracy.summary),
    "accuracy_tools": _of_results(ACCURACY, results.read, accuracy.others_table),
    "medium_kernels": medium_kernels,
    "clock_spread": _of_results(CLOCKS, clock_spread.read, clock_spread.summary),
    "collectives_source": _of_results(COLLECTIVES, collectives.read, collectives.source),
    "collectives": _of_results(COLLECTIVES, collectives.read, collectives.bus_table),
    "first_verdict_source": _of_results(FIRST_VERDICT, costs.read, costs.source),
    "first_verdict": _of_results(FIRST_VERDICT, costs.read, costs.report),
    "several_gpus_source": _of_results(SEVERAL_GPUS, several_gpus.read, several_gpus.source),
    "several_gpus": _of_results(SEVERAL_GPUS, several_gpus.read, several_gpus.summary_table),
    "several_h100s_source": _of_results(SEVERAL_H100S, several_gpus.read, several_gpus.source),
    "several_h100s": _of_results(SEVERAL_H100S, several_gpus.read, several_gpus.summary_table),
    "counters_source": _of_results(COUNTERS, counter_agreement.read, counters.source),
    "counters_agreement": _of_results(COUNTERS, counter_agreement.read, counters.agreement_table),
    "counters_nsight_python": _of_results(COUNTERS, counter_agreement.read, counters.nsight_python),
    "counters_cost": _of_results(COUNTERS, counter_agreement.read, counters.cost),
    "defences_summary": _of_results(DEFENCES, defences.read, defences.summary),
    "defences_themes": _of_results(DEFENCES, defences.read, defences.themes_table),
    "defences_exceptions": _of_results(DEFENCES, defences.read, defences.exceptions),
    "zoo_summary": _shards("zoo", zoo.read, zoo.summary),
    "environments_same": _of_results(ENVIRONMENTS, environments.read, environments.same_summary),
    "environments": _of_results(ENVIRONMENTS, environments.read, environments.regressions_table),
    "history_summary": _of_results(HISTORY, history_power.read, history.summarised),
    "history_outcomes": _of_results(HISTORY, history_power.read, history.outcomes),
    "gate_summary": _of_results(GATE, analysis.read, gate.summarised),
    "gate_headline": _with_live(gate.headline),
    "gate_unchanged": _with_live(unchanged.rows),
    "gate_detection": _of_results(GATE, analysis.read, gate.detection),
    "gate_settled": _of_results(GATE, analysis.read, gate.settled),
    "gate_live": _shards("settling", settling.parts, settling.report),
    "gate_live_source": _shards("settling", settling.parts, settling.source),
    "synchronising": _synchronising(synchronising.verdicts),
    "synchronising_source": _synchronising(synchronising.origin),
    "host_sessions": host_sessions,
    "sanitizer_messages": sanitizer_messages,
    "token_reduction": token_reduction,
    "public_problems": _of_results(PUBLIC, public_problems.read, public_problems.summary),
    "tried_good": _of_results(PUBLIC, public_problems.read, partial(public_problems.shown, name="good")),
    "works_with": _of_results(WORKS_WITH, works_with.read, works_with.times_table),
    "works_with_exceptions": _of_results(WORKS_WITH, works_with.read, works_with.exceptions),
    "works_with_summary": _of_results(WORKS_WITH, works_with.read, works_with.summary),
}
"""Functions by the name in the marker; no text has an empty line."""


def _table(titles: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    titles = tuple(titles)
    lines = [f"|{'|'.join(cell.replace('|', '&#124;') for cell in line)}|\n" for line in (titles, *rows)]
    return "".join((lines[0], f"|{'---|' * len(titles)}\n", *lines[1:]))
