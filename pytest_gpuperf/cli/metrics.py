"""`gpuperf metrics`: the catalogue, with ncu's names on a chip and the passes that they take."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click
import msgspec

from pytest_gpuperf.cli.project import echo
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.cupti.cupti_host import NoHostLibraryError, passes_each
from pytest_gpuperf.metrics import COMPILED_ONLY, METRICS, ncu_metric_names
from pytest_gpuperf.metrics.chips import CHIPS, find_chip
from pytest_gpuperf.metrics.presets import PRESETS, check_presets, metrics_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_gpuperf.metrics import Metric
    from pytest_gpuperf.metrics.chips import Chip


@dataclass(frozen=True)
class _Passes:
    """Passes of each metric and of all of them together."""

    each: dict[str, int | None]
    together: int | None = None
    unknown: str = ""
    """Why they are not known; empty where they are."""


@click.command()
@click.option("--chip", help="Names and passes on this chip: gh100, ga10x, or a compute capability, 9.0.")
@click.option(
    "--preset", help=f"Only the metrics of these presets, separated by commas: {', '.join(PRESETS)}."
)
@click.option("--find", "word", help="Only metrics with this word in a name or in the explanation.")
@click.option("--json", "as_json", is_flag=True, help="As JSON, a list of objects.")
def metrics(chip: str | None, preset: str | None, word: str | None, as_json: bool) -> None:
    """Show the metrics that tests, limits and baselines may name.

    Passes say how often ncu runs a kernel for them; those of several metrics overlap. They need CUPTI's host
    library, which torch's CUDA wheels and Triton bring, and no GPU.
    """
    wanted = metrics_of(check_presets(preset.split(","), "in --preset")) if preset is not None else METRICS
    found = [
        metric
        for name, metric in METRICS.items()
        if name in wanted and (word is None or _has(metric, word.lower()))
    ]
    if not found:
        raise GpuperfError(
            f"no metric has {word!r} in a name or in its explanation",
            next_step="any other name that `ncu --query-metrics` lists can be used as it is",
        )
    on = find_chip(chip) if chip is not None else None
    passes = _passes(found, on)
    if as_json:
        rows = [_row(metric, on, passes) for metric in found]
        click.echo(msgspec.json.format(msgspec.json.encode(rows), indent=1).decode())
        return
    for line in _lines(found, on, passes):
        echo(line)
    echo(_summary(found, on, passes))


def _has(metric: Metric, word: str) -> bool:
    texts = [metric.name, metric.explanation, metric.section, *metric.requests()]
    return any(word in text.lower() for text in texts)


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


def _lines(found: Sequence[Metric], chip: Chip | None, passes: _Passes) -> list[str]:
    columns = [(metric.name, metric.unit, metric.better, metric.tier.value) for metric in found]
    widths = [max(map(len, column)) for column in zip(*columns, strict=True)]
    lines = []
    for section, metrics in itertools.groupby(zip(found, columns, strict=True), lambda row: _title(row[0])):
        lines.append(section)
        for metric, cells in metrics:
            shown = "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
            lines.append(f"  {shown}  {_cost(metric, chip, passes)}".rstrip())
            lines.append(f"      {metric.explanation}")
            lines += [f"      {line}" for line in _spellings(metric, chip)]
    return lines


def _title(metric: Metric) -> str:
    made_by = "a compiler" if metric.name in COMPILED_ONLY else "the plugin"
    return metric.section or f"made by {made_by}"


def _cost(metric: Metric, chip: Chip | None, passes: _Passes) -> str:
    if chip is not None and chip.name not in metric.chips:
        return f"unavailable on {chip}"
    if any("__pcsamp_" in name for name in metric.requests()):
        return "by sampling"
    count = passes.each.get(metric.name)
    return "" if count is None else _count(count)


def _count(passes: int) -> str:
    return "1 pass" if passes == 1 else f"{passes or 'no'} passes"


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
    count = f"{len(found)} metric{'' if len(found) == 1 else 's'}"
    if chip is None:
        return f"{count}; --chip shows the names and passes of one chip"
    if passes.together is None:
        return f"{count}; passes are not known: {passes.unknown}"
    return f"{count}, {_count(passes.together)} together on {chip}"


def _row(metric: Metric, chip: Chip | None, passes: _Passes) -> dict[str, Any]:
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
