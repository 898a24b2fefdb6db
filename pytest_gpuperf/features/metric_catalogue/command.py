"""`gpuperf metrics`: list the metrics, with ncu's names and passes on a chip."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from pytest_gpuperf.cli.output import output_form, show
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.cupti.chip_metrics import NoHostLibraryError, passes_each
from pytest_gpuperf.metrics import COMPILED_ONLY, METRICS, ncu_metric_names
from pytest_gpuperf.metrics.chips import CHIPS
from pytest_gpuperf.metrics.presets import PRESETS, check_presets, metrics_of
from pytest_gpuperf.report.number_format import count
from pytest_gpuperf.report.table import Column, Report, Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_gpuperf.metrics import Metric
    from pytest_gpuperf.metrics.chips import Chip


@dataclass(frozen=True)
class _Passes:
    """The passes of each metric, and of all of them together."""

    each: dict[str, int | None]
    together: int | None = None
    unknown: str = ""
    """The reason why the passes are not known; empty if they are."""


@click.command("metrics")
@click.option("--chip", help="Show names and passes on this chip: gh100, ga10x, or 9.0 (compute capability).")
@click.option(
    "--preset", help=f"Show only the metrics of these presets, separated by commas: {', '.join(PRESETS)}."
)
@click.option(
    "--find", "words", default="", help="Show only metrics with these words in their names or explanations."
)
@output_form
def command(chip: str | None, preset: str | None, words: str, form: str) -> None:
    """List the metrics that tests, limits and baselines may name.

    A pass is one run of the kernel under ncu; passes of several metrics overlap. To count them takes CUPTI's
    host library, which comes with torch's CUDA wheels and with Triton, and no GPU.
    """
    wanted = metrics_of(check_presets(preset.split(","), "in --preset")) if preset is not None else METRICS
    found = [
        metric for name, metric in METRICS.items() if name in wanted and _has(metric, words.lower().split())
    ]
    if not found:
        raise GpuperfError(
            f"no metric has {words!r} in a name or in its explanation",
            next_step="any other name that `ncu --query-metrics` lists can be used as it is",
        )
    on = _find_chip(chip) if chip is not None else None
    passes = _passes(found, on)
    records = [_record(metric, on, passes) for metric in found]
    show(Report([Table(_columns(found, on, passes), notes=[_summary(found, on, passes)])], records), form)


def _find_chip(text: str) -> Chip:
    """Return the chip that a user names: `gh100`, `GA104`, `9.0`, or by its family `ga10x`."""
    wanted = text.lower()
    for chip in CHIPS:
        if wanted in (chip.name, chip.compute_capability, *chip.others):
            return chip
    raise GpuperfError(
        f"there is no chip {text!r}",
        expected=f"one of {', '.join(chip.name for chip in CHIPS)}, or a compute capability such as 9.0",
    )


def _has(metric: Metric, words: Sequence[str]) -> bool:
    texts = [metric.name, metric.explanation, metric.section, *metric.requests()]
    return any(all(word in text.lower() for word in words) for text in texts)


def _passes(found: Sequence[Metric], chip: Chip | None) -> _Passes:
    if chip is None:
        return _Passes({})
    sets = [metric.requests(chip.name) for metric in found]
    try:
        *each, together = passes_each(
            chip.name, [*sets, ncu_metric_names([metric.name for metric in found], chip.name)]
        )
    except NoHostLibraryError as error:
        return _Passes({}, unknown=str(error))
    return _Passes(dict(zip((metric.name for metric in found), each, strict=True)), together)


def _columns(found: Sequence[Metric], chip: Chip | None, passes: _Passes) -> list[Column]:
    details = ["\n".join([metric.explanation, *_spellings(metric, chip)]) for metric in found]
    return [
        Column("section", [_title(metric) for metric in found], "group"),
        Column("metric", [metric.name for metric in found], "name", code=True),
        Column("unit", [metric.unit for metric in found], "unit"),
        Column("better", [metric.better for metric in found], left=True),
        Column("tier", [metric.tier.value for metric in found], left=True),
        Column("passes", [_cost(metric, chip, passes) for metric in found], left=True),
        Column("explanation and names in ncu", details, "detail"),
    ]


def _title(metric: Metric) -> str:
    made_by = "a compiler" if metric.name in COMPILED_ONLY else "the plugin"
    return metric.section or f"made by {made_by}"


def _cost(metric: Metric, chip: Chip | None, passes: _Passes) -> str:
    if chip is not None and chip.name not in metric.chips:
        return f"unavailable on {chip}"
    number = passes.each.get(metric.name)
    return "" if number is None else count(number, "pass", "passes")


def _spellings(metric: Metric, chip: Chip | None) -> list[str]:
    if chip is not None:
        names = metric.requests(chip.name)
        return [", ".join(names)] if names else []
    wanted = [source for source in metric.sources if source.requested]
    lines = []
    seen: frozenset[str] = frozenset()
    for source in wanted:
        if not source.chips <= seen:
            on = f" on {', '.join(_in_order(source.chips - seen))}" if seen else ""
            lines.append(", ".join(source.names) + on)
            seen |= source.chips
    lacking = _in_order({chip.name for chip in CHIPS} - metric.chips)
    return [*lines, f"not on {', '.join(lacking)}"] if lacking else lines


def _in_order(chips: frozenset[str] | set[str]) -> list[str]:
    return [chip.name for chip in CHIPS if chip.name in chips]


def _summary(found: Sequence[Metric], chip: Chip | None, passes: _Passes) -> str:
    metrics = count(len(found), "metric")
    if chip is None:
        return f"{metrics}; --chip shows the names and passes of one chip"
    if passes.together is None:
        return f"{metrics}; passes are not known: {passes.unknown}"
    return f"{metrics}, {count(passes.together, 'pass', 'passes')} together on {chip}"


def _record(metric: Metric, chip: Chip | None, passes: _Passes) -> dict[str, Any]:
    row: dict[str, Any] = {
        "name": metric.name,
        "unit": metric.unit,
        "better": metric.better,
        "tier": metric.tier.value,
        "combining": metric.combining.value,
        "weight": metric.weight,
        "section": metric.section,
        "explanation": metric.explanation,
        "ncu": metric.requests(chip.name if chip else ""),
        "chips": _in_order(metric.chips),
        "presets": metric.presets,
    }
    if chip is not None:
        row["available"] = chip.name in metric.chips
        row["passes"] = passes.each.get(metric.name) if row["available"] else None
    return row
