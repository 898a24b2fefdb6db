"""Results for other tools: verdicts, tables for pandas, rows, times in pytest-benchmark, and JSON schemas.

Command: `gpuperf export`, also with `--schema`. Option: `--gpuperf-json`.
Name: `pytest_gpuperf.to_frame`.
Fixture: pytest-benchmark's `benchmark` is timed by the GPU under `@pytest.mark.gpuperf(benchmark=True)`.
Extra: `benchmark` (pytest-benchmark).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pytest_gpuperf.registry import Option

if TYPE_CHECKING:
    from pytest_gpuperf.registry import Registry
    from pytest_gpuperf.session.run_report import End, RunReport


def register(registry: Registry) -> None:
    """Add the parts named above."""
    registry.commands["export"] = "pytest_gpuperf.features.export.command"
    registry.names["to_frame"] = "pytest_gpuperf.features.export.data_frame"
    registry.plugins.append("pytest_gpuperf.features.export.pytest_benchmark_fixture")
    registry.plugins.append("pytest_gpuperf.features.export.stale_verdict_removal")
    registry.options.append(
        Option(
            "json",
            "",
            "write the verdicts of the run to this file as one JSON object (`gpuperf export --schema "
            "verdict`)",
            metavar="FILE",
            unset="none",
            asks=True,
        )
    )
    registry.outputs.append(_write_verdicts)


def _write_verdicts(report: RunReport, end: End) -> None:
    if path := report.judge.settings.of_features["json"]:
        from pytest_gpuperf.features.export.verdict_json import write_verdicts

        write_verdicts(Path(path), report.summary(), end)
