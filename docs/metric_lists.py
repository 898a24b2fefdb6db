"""Lists of all metrics, which the site shows in place of a marker.

GitHub shows the page without them: `gpuperf metrics` prints the same.
"""

from __future__ import annotations

import re
from itertools import groupby
from typing import TYPE_CHECKING

from pytest_gpuperf.metrics import METRICS, Combining, Tier
from pytest_gpuperf.metrics.chips import CHIPS

if TYPE_CHECKING:
    from pytest_gpuperf.metrics import Metric


def metrics() -> str:
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


def chips() -> str:
    """List the chips with the metrics that they lack."""
    lines = []
    for chip in CHIPS:
        same = "".join(f", `{other}`" for other in chip.others)
        lacking = ", ".join(f"`{name}`" for name, metric in METRICS.items() if chip.name not in metric.chips)
        lines.append(f"- `{chip.name}`{same} ({chip.compute_capability}): {lacking}\n")
    return "".join(lines)


def with_lists(text: str) -> str:
    """Put the lists in place of their markers."""
    for marker, made in (("<!-- site: metrics -->", metrics), ("<!-- site: chips -->", chips)):
        before, found, after = text.partition(marker)
        if not found:
            message = f"no {marker} in the page"
            raise ValueError(message)
        text = before + made() + after
    return text
