"""JSON schemas of the files that this package writes."""

from __future__ import annotations

from typing import Any

import msgspec

from pytest_gpuperf.features.export.verdict_json import Verdicts
from pytest_gpuperf.records import Run
from pytest_gpuperf.records.baseline import Baseline
from pytest_gpuperf.report.forms.as_json import escaped

FILES = {"run": (Run, "string"), "baseline": (Baseline, ""), "verdict": (Verdicts, "null")}
"""Each file's type, and the form in which it has a number that is infinite or NaN."""


def schema(name: str) -> dict[str, Any]:
    """Return the JSON schema of one of `FILES`."""
    kind, not_finite = FILES[name]
    found = msgspec.json.schema(kind)
    if not_finite:
        _allow(found, not_finite)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **found}


def _allow(part: Any, not_finite: str) -> None:
    """Allow another form for all numbers without a range; those with one are always finite."""
    if not isinstance(part, (dict, list)):
        return
    if isinstance(part, dict) and part.get("type") == "number" and not {"minimum", "maximum"} & part.keys():
        part["type"] = ["number", not_finite]
    for one in part.values() if isinstance(part, dict) else part:
        _allow(one, not_finite)


def shown(name: str) -> str:
    """Return the JSON schema of one of `FILES` as text."""
    text = msgspec.json.format(msgspec.json.encode(schema(name)), indent=1).decode()
    return escaped(text) + "\n"
