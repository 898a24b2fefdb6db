"""Results for other tools: tables for pandas, files of pytest-benchmark, rows, and JSON schemas.

Command: `gpuperf export`, also with `--schema`.
Name: `pytest_gpuperf.to_frame`.
Fixture: pytest-benchmark's `benchmark` is timed by the GPU under `@pytest.mark.gpuperf(benchmark=True)`.
Extras: `benchmark` (pytest-benchmark), `parquet` (pyarrow).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_gpuperf.registry import Registry


def register(registry: Registry) -> None:
    """Add the parts named above."""
    registry.commands["export"] = "pytest_gpuperf.features.export.command"
    registry.names["to_frame"] = "pytest_gpuperf.features.export.data_frame"
    registry.plugins.append("pytest_gpuperf.features.export.pytest_benchmark_plugin")
