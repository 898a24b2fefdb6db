"""`gpuperf schema`: describe the files and the JSON of this package."""

from __future__ import annotations

from importlib import import_module
from types import GenericAlias
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import msgspec

from pytest_gpuperf.cli.output import echo_data, output_form, show
from pytest_gpuperf.report.forms.as_json import escaped
from pytest_gpuperf.report.table import Column, Report, Table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_gpuperf.report.schemas import NotFinite

_JSON = "pytest_gpuperf.report.command_json"
_HISTORY = "pytest_gpuperf.report.history.json_types"


class Schema(NamedTuple):
    """One kind of JSON that this package writes."""

    writer: str
    """The file, or the command."""
    module: str
    kind: str
    several: bool = False
    """True for a list of objects."""
    not_finite: NotFinite = "null"


SCHEMAS: Mapping[str, Schema] = {
    "run": Schema(
        ".gpuperf/runs/ID/run.json, recordings", "pytest_gpuperf.records", "Run", not_finite="words"
    ),
    "baseline": Schema(
        "baselines/GPU/SUITE.json", "pytest_gpuperf.records.baseline", "Baseline", not_finite="never"
    ),
    "verdict": Schema("pytest --gpuperf-json=FILE", "pytest_gpuperf.report.verdicts", "Verdicts"),
    "baseline-diff": Schema("gpuperf baseline accept|diff --json", _JSON, "Plans"),
    "baseline-status": Schema("gpuperf baseline status --json", _JSON, "SuiteStatus", several=True),
    "break-even": Schema("gpuperf break-even --json", _JSON, "BreakEven"),
    "clean": Schema("gpuperf clean --json", _JSON, "Cleaning"),
    "compare": Schema("gpuperf compare --json; ncu, trace --compare", _JSON, "Comparison"),
    "diff-code": Schema("gpuperf diff-code --json", _JSON, "CodeDifferences"),
    "doctor": Schema("gpuperf doctor --json", "pytest_gpuperf.cli.doctor.check", "Check", several=True),
    "explain": Schema("gpuperf explain --json", _JSON, "Explained", several=True),
    "export": Schema("gpuperf export --format json", _JSON, "ExportedRow", several=True),
    "fleet-run": Schema("gpuperf fleet run --json", _JSON, "FleetRun"),
    "fleet-simulate": Schema("gpuperf fleet simulate --json", _JSON, "FleetPlan", several=True),
    "history-check": Schema("gpuperf history check --json", _HISTORY, "HistoryChanges"),
    "history-line": Schema(
        "perf-history/GPU/SUITE.jsonl", "pytest_gpuperf.records.history", "HistoryLine", not_finite="never"
    ),
    "history-show": Schema("gpuperf history show --json", _HISTORY, "HistoryTime", several=True),
    "history-show-test": Schema("gpuperf history show TEST --json", _HISTORY, "HistorySession", several=True),
    "metrics": Schema("gpuperf metrics --json", _JSON, "Metric", several=True),
    "ncu": Schema("gpuperf ncu --json", _JSON, "Launch", several=True),
    "recording-list": Schema("gpuperf recording list --json", _JSON, "Recording", several=True),
    "trace": Schema("gpuperf trace --json", _JSON, "TracedCall", several=True),
    "try": Schema("gpuperf try --json", "pytest_gpuperf.records.trial", "TrialResult"),
}
"""Every kind by the name that users type."""


def schema(name: str) -> dict[str, Any]:
    """Return the JSON schema of one of `SCHEMAS`."""
    from pytest_gpuperf.report.schemas import json_schema

    found = SCHEMAS[name]
    kind: Any = getattr(import_module(found.module), found.kind)
    if found.several:
        kind = GenericAlias(list, (kind,))
    return json_schema(kind, title=f"gpuperf {name}", not_finite=found.not_finite)


@click.command("schema")
@click.argument("name", metavar="[NAME]", required=False, type=click.Choice(list(SCHEMAS)))
@output_form
def command(name: str | None, form: str) -> None:
    """Print the JSON schema of a file or of a command's JSON.

    Without NAME the schemas are listed. Their dialect is JSON Schema 2020-12.
    """
    if name is not None:
        text = msgspec.json.format(msgspec.json.encode(schema(name)), indent=1).decode()
        echo_data(escaped(text) + "\n", "json")
        return
    columns = [
        Column("", list(SCHEMAS), "name", code=True),
        Column("", [one.writer for one in SCHEMAS.values()], "prose"),
    ]
    records = [{"name": key, "describes": one.writer} for key, one in SCHEMAS.items()]
    show(Report([Table(columns)], records), form)
